// Heart muscle cells: each thread integrates the 91 differential equations of one cell over time by an embedded
// Runge-Kutta-Fehlberg method of orders 7 and 8, with smaller steps where the error is too large.
#define STATES 91
#define PARAMETERS 18
#define LANES 32
#define TRIES 12
#define LEAST_SCALE 0.125
#define MOST_SCALE 4.0
#define SMALLER(p, q) ((p) < (q) ? (p) : (q))
#define LARGER(p, q) ((p) < (q) ? (q) : (p))

// A 64-bit result as a 32-bit number, zero if that would be denormal.
__device__ __forceinline__ float flushed(double x)
{
    float result;
    asm("cvt.rn.ftz.f32.f64 %0, %1;" : "=f"(result) : "d"(x));
    return result;
}

// The approximate functions of fast mathematics, which also take denormal numbers as zero.
__device__ __forceinline__ float quotient(float of, float by)
{
    float result;
    asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(result) : "f"(of), "f"(by));
    return result;
}

__device__ __forceinline__ float exp2_of(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

__device__ __forceinline__ float log2_of(float x)
{
    float result;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

__device__ __forceinline__ float fast_exp(float x) { return exp2_of(x * 1.4426950408889634f); }
__device__ __forceinline__ float fast_log(float x) { return log2_of(x) * 0.6931471805599453f; }
__device__ __forceinline__ float fast_log10(float x) { return log2_of(x) * 0.3010299956639812f; }
__device__ __forceinline__ float fast_pow(float x, float y) { return exp2_of(y * log2_of(x)); }

// Calcium and potential of one compartment: sodium, potassium, chloride and calcium currents, stores and buffers.
__device__ void excitation(float time, float *state, float *rate, int at, float *parameter)
{
    const float cycle = parameter[15];

    const float m = state[at];
    const float h = state[at + 1];
    const float j = state[at + 2];
    const float d = state[at + 3];
    const float f = state[at + 4];
    const float fca_j = state[at + 5];
    const float fca_s = state[at + 6];
    const float xtos = state[at + 7];
    const float ytos = state[at + 8];
    const float xtof = state[at + 9];
    const float ytof = state[at + 10];
    const float xkr = state[at + 11];
    const float xks = state[at + 12];
    const float ryr_r = state[at + 13];
    const float ryr_o = state[at + 14];
    const float ryr_i = state[at + 15];
    const float nab_j = state[at + 16];
    const float nab_s = state[at + 17];
    const float tnc_l = state[at + 18];
    const float tnc_hc = state[at + 19];
    const float tnc_hm = state[at + 20];
    const float myo_c = state[at + 22];
    const float myo_m = state[at + 23];
    const float srb = state[at + 24];
    const float sll_j = state[at + 25];
    const float sll_s = state[at + 26];
    const float slh_j = state[at + 27];
    const float slh_s = state[at + 28];
    const float csqn = state[at + 29];
    const float ca_sr = state[at + 30];
    const float na_j = state[at + 31];
    const float na_s = state[at + 32];
    const float na_i = state[at + 33];
    const float k_i = state[at + 34];
    const float ca_j = state[at + 35];
    const float ca_s = state[at + 36];
    const float ca_i = state[at + 37];
    const float v = state[at + 38];
    const float rtos = state[at + 39];

    // Constants of nature and of the cell's shape
    const float pi = 3.1416;
    const float gas = 8314;
    const float faraday = 96485;
    const float temperature = 310;
    const float fort = faraday / gas / temperature;
    const float capacity = 1.3810e-10;
    const float warm = (temperature - 310) / 10;
    const float length = 100;
    const float radius = 10.25;
    const float v_cell = pi * pow((double)radius, 2.0) * length * 1e-15;
    const float v_myo = 0.65 * v_cell;
    const float v_sr = 0.035 * v_cell;
    const float v_sl = 0.02 * v_cell;
    const float v_jn = 0.0539 * 0.01 * v_cell;
    const float flow_ca_js = 1 / 1.2134e12;
    const float flow_ca_sm = 1 / 2.68510e11;
    const float flow_na_js = 1 / (1.6382e12 / 3 * 100);
    const float flow_na_sm = 1 / (1.8308e10 / 3 * 100);
    const float share_j = 0.11;
    const float share_s = 1 - share_j;
    const float share_cal_j = 0.9;
    const float share_cal_s = 1 - share_cal_j;

    // Ions outside, and the potentials at which their currents vanish
    const float cl_i = 15;
    const float cl_o = 150;
    const float k_o = 5.4;
    const float na_o = 140;
    const float ca_o = 1.8;
    const float mg_i = 1;
    const float e_na_j = (1 / fort) * fast_log(quotient(na_o, na_j));
    const float e_na_s = (1 / fort) * fast_log(quotient(na_o, na_s));
    const float e_k = (1 / fort) * fast_log(quotient(k_o, k_i));
    const float e_ca_j = (1 / fort / 2) * fast_log(quotient(ca_o, ca_j));
    const float e_ca_s = (1 / fort / 2) * fast_log(quotient(ca_o, ca_s));
    const float e_cl = (1 / fort) * __logf(cl_i / cl_o);

    const float g_na = 16.0;
    const float g_nab = 0.297e-3;
    const float i_nak_most = 1.90719;
    const float km_naip = 11;
    const float km_ko = 1.5;
    const float p_nak = 0.01833;
    const float g_tos = 0.06;
    const float g_tof = 0.02;
    const float g_kp = 0.001;
    const float g_clca = 0.109625;
    const float g_clb = 9e-3;
    const float kd_clca = 100e-3;
    const float p_na = 1.5e-8;
    const float p_ca = 5.4e-4;
    const float p_k = 2.7e-7;
    const float q10_cal = 1.8;
    const float i_ncx_most = 9.0;
    const float km_cai = 3.59e-3;
    const float km_cao = 1.3;
    const float km_nai = 12.29;
    const float km_nao = 87.5;
    const float k_sat = 0.27;
    const float nu = 0.35;
    const float kd_act = 0.256e-3;
    const float q10_ncx = 1.57;
    const float i_slcap_most = 0.0673;
    const float km_pca = 0.5e-3;
    const float g_cab = 2.513e-4;
    const float q10_slcap = 2.35;
    const float q10_srcap = 2.6;
    const float srcap_most = 2.86e-4;
    const float km_f = 0.246e-3;
    const float km_r = 1.7;
    const float hill = 1.787;
    const float k_s = 25;
    const float ko_ca = 10;
    const float k_om = 0.06;
    const float ki_ca = 0.5;
    const float k_im = 0.005;
    const float ec50_sr = 0.45;
    const float most_naj = 7.561;
    const float most_nas = 1.65;
    const float off_na = 1e-3;
    const float on_na = 0.1e-3;
    const float most_tncl = 70e-3;
    const float off_tncl = 19.6e-3;
    const float on_tncl = 32.7;
    const float most_tnch = 140e-3;
    const float off_tnchc = 0.032e-3;
    const float on_tnchc = 2.37;
    const float off_tnchm = 3.33e-3;
    const float on_tnchm = 3e-3;
    const float most_myo = 140e-3;
    const float off_myoc = 0.46e-3;
    const float on_myoc = 13.8;
    const float off_myom = 0.057e-3;
    const float on_myom = 0.0157;
    const float most_sr = 19 * 0.9e-3;
    const float off_sr = 60e-3;
    const float on_sr = 100;
    const float most_slls = 37.38e-3 * v_myo / v_sl;
    const float most_sllj = 4.62e-3 * v_myo / v_jn * 0.1;
    const float off_sll = 1300e-3;
    const float on_sll = 100;
    const float most_slhs = 13.35e-3 * v_myo / v_sl;
    const float most_slhj = 1.65e-3 * v_myo / v_jn * 0.1;
    const float off_slh = 30e-3;
    const float on_slh = 100;
    const float most_csqn = 2.7;
    const float off_csqn = 65;
    const float on_csqn = 100;

    // Fast sodium current
    const float am = flushed(0.32 * (v + 47.13) / (1 - exp(-0.1 * (v + 47.13))));
    const float bm = flushed(0.08 * fast_exp(quotient(-v, 11)));
    float ah, bh, aj, bj;
    if (v >= -40) {
        ah = 0;
        aj = 0;
        bh = flushed(1 / (0.13 * (1 + exp(-(v + 10.66) / 11.1))));
        bj = flushed(0.3 * exp(-2.535e-7 * v) / (1 + exp(-0.1 * (v + 32))));
    } else {
        ah = flushed(0.135 * exp((80 + v) / -6.8));
        bh = flushed(3.56 * exp(0.079 * v) + 3.1e5 * exp(0.35 * v));
        aj = flushed((-127140 * exp(0.2444 * v) - 3.474e-5 * exp(-0.04391 * v)) * (v + 37.78) /
                (1 + exp(0.311 * (v + 79.23))));
        bj = flushed(0.1212 * exp(-0.01052 * v) / (1 + exp(-0.1378 * (v + 40.14))));
    }
    rate[at] = am * (1 - m) - bm * m;
    rate[at + 1] = ah * (1 - h) - bh * h;
    rate[at + 2] = aj * (1 - j) - bj * j;
    const float i_na_j = flushed(share_j * g_na * pow((double)m, 3.0) * h * j * (v - e_na_j));
    const float i_na_s = flushed(share_s * g_na * pow((double)m, 3.0) * h * j * (v - e_na_s));

    // Sodium in the background, and the pump of sodium and potassium
    const float i_nab_j = share_j * g_nab * (v - e_na_j);
    const float i_nab_s = share_s * g_nab * (v - e_na_s);
    const float sigma = (exp(na_o / 67.3) - 1) / 7;
    const float f_nak = flushed(1 / (1 + 0.1245 * exp(-0.1 * v * fort) + 0.0365 * sigma * fast_exp(-v * fort)));
    const float i_nak_j = flushed(share_j * i_nak_most * f_nak * k_o /
            (1 + pow((double)quotient(km_naip, na_j), 4.0)) / (k_o + km_ko));
    const float i_nak_s = flushed(share_s * i_nak_most * f_nak * k_o /
            (1 + pow((double)quotient(km_naip, na_s), 4.0)) / (k_o + km_ko));
    const float i_nak = i_nak_j + i_nak_s;

    // Potassium: rapidly and slowly activated
    const float g_kr = 0.03 * sqrt(k_o / 5.4);
    const float xr_end = flushed(1 / (1 + exp(-(v + 50) / 7.5)));
    const float tau_xr = flushed(1 / (0.00138 * (v + 7) / (1 - exp(-0.123 * (v + 7))) + 6.1e-4 * (v + 10) /
            (exp(0.145 * (v + 10)) - 1)));
    rate[at + 11] = quotient(xr_end - xkr, tau_xr);
    const float r_kr = flushed(1 / (1 + exp((v + 33) / 22.4)));
    const float i_kr = g_kr * xkr * r_kr * (v - e_k);
    const float pca_j = flushed(-fast_log10(ca_j) + 3.0);
    const float pca_s = flushed(-fast_log10(ca_s) + 3.0);
    const float g_ks_j = flushed(0.07 * (0.057 + 0.19 / (1 + exp((-7.2 + pca_j) / 0.6))));
    const float g_ks_s = flushed(0.07 * (0.057 + 0.19 / (1 + exp((-7.2 + pca_s) / 0.6))));
    const float e_ks = (1 / fort) * fast_log(quotient(k_o + p_nak * na_o, k_i + p_nak * na_i));
    const float xs_end = flushed(1 / (1 + exp(-(v - 1.5) / 16.7)));
    const float tau_xs = flushed(1 / (7.19e-5 * (v + 30) / (1 - exp(-0.148 * (v + 30))) + 1.31e-4 * (v + 30) /
            (exp(0.0687 * (v + 30)) - 1)));
    rate[at + 12] = quotient(xs_end - xks, tau_xs);
    const float i_ks_j = flushed(share_j * g_ks_j * pow((double)xkr, 2.0) * (v - e_ks));
    const float i_ks_s = flushed(share_s * g_ks_s * pow((double)xks, 2.0) * (v - e_ks));
    const float i_ks = i_ks_j + i_ks_s;

    // Potassium: plateau, transient outward, inward
    const float kp = flushed(1 / (1 + exp(7.488 - v / 5.98)));
    const float i_kp_j = share_j * g_kp * kp * (v - e_k);
    const float i_kp_s = share_s * g_kp * kp * (v - e_k);
    const float i_kp = i_kp_j + i_kp_s;
    const float x_end = flushed(1 / (1 + exp(-(v + 3.0) / 15)));
    const float y_end = flushed(1 / (1 + exp((v + 33.5) / 10)));
    const float r_end = flushed(1 / (1 + exp((v + 33.5) / 10)));
    const float tau_xtos = flushed(9 / (1 + exp((v + 3.0) / 15)) + 0.5);
    const float tau_ytos = flushed(3e3 / (1 + exp((v + 60.0) / 10)) + 30);
    const float tau_rtos = flushed(2800 / (1 + exp((v + 60.0) / 10)) + 220);
    rate[at + 7] = quotient(x_end - xtos, tau_xtos);
    rate[at + 8] = quotient(y_end - ytos, tau_ytos);
    rate[at + 39] = quotient(r_end - rtos, tau_rtos);
    const float i_tos = flushed(g_tos * xtos * (ytos + 0.5 * rtos) * (v - e_k));
    const float tau_xtof = flushed(3.5 * fast_exp(quotient(quotient(-v * v, 30), 30)) + 1.5);
    const float tau_ytof = flushed(20.0 / (1 + exp((v + 33.5) / 10)) + 20.0);
    rate[at + 9] = quotient(x_end - xtof, tau_xtof);
    rate[at + 10] = quotient(y_end - ytof, tau_ytof);
    const float i_tof = g_tof * xtof * ytof * (v - e_k);
    const float i_to = i_tos + i_tof;
    const float a_ki = flushed(1.02 / (1 + exp(0.2385 * (v - e_k - 59.215))));
    const float b_ki = flushed((0.49124 * exp(0.08032 * (v + 5.476 - e_k)) + exp(0.06175 * (v - e_k - 594.31))) /
            (1 + exp(-0.5143 * (v - e_k + 4.753))));
    const float ki_end = quotient(a_ki, a_ki + b_ki);
    const float i_ki = flushed(0.9 * sqrt(k_o / 5.4) * ki_end * (v - e_k));

    // Chloride
    const float i_clca_j = quotient(share_j * g_clca, 1 + quotient(kd_clca, ca_j)) * (v - e_cl);
    const float i_clca_s = quotient(share_s * g_clca, 1 + quotient(kd_clca, ca_s)) * (v - e_cl);
    const float i_clca = i_clca_j + i_clca_s;
    const float i_clb = g_clb * (v - e_cl);

    // Calcium channels of type L
    const float d_end = flushed(1 / (1 + exp(-(v + 14.5) / 6.0)));
    const float tau_d = flushed(d_end * (1 - exp(-(v + 14.5) / 6.0)) / (0.035 * (v + 14.5)));
    const float f_end = flushed(1 / (1 + exp((v + 35.06) / 3.6)) + 0.6 / (1 + fast_exp(quotient(50 - v, 20))));
    const float tau_f = flushed(1 / (0.0197 * exp(-pow(0.0337 * (v + 14.5), 2.0)) + 0.02));
    rate[at + 3] = quotient(d_end - d, tau_d);
    rate[at + 4] = quotient(f_end - f, tau_f);
    rate[at + 5] = flushed(1.7 * ca_j * (1 - fca_j) - 11.9e-3 * fca_j);
    rate[at + 6] = flushed(1.7 * ca_s * (1 - fca_s) - 11.9e-3 * fca_s);
    const float bar_ca_j = flushed(p_ca * 4 * (v * faraday * fort) *
            (0.341 * ca_j * fast_exp(2 * v * fort) - 0.341 * ca_o) / (fast_exp(2 * v * fort) - 1));
    const float bar_ca_s = flushed(p_ca * 4 * (v * faraday * fort) *
            (0.341 * ca_s * fast_exp(2 * v * fort) - 0.341 * ca_o) / (fast_exp(2 * v * fort) - 1));
    const float bar_k = flushed(p_k * (v * faraday * fort) * (0.75 * k_i * fast_exp(v * fort) - 0.75 * k_o) /
            (fast_exp(v * fort) - 1));
    const float bar_na_j = flushed(p_na * (v * faraday * fort) * (0.75 * na_j * fast_exp(v * fort) - 0.75 * na_o) /
            (fast_exp(v * fort) - 1));
    const float bar_na_s = flushed(p_na * (v * faraday * fort) * (0.75 * na_s * fast_exp(v * fort) - 0.75 * na_o) /
            (fast_exp(v * fort) - 1));
    const float i_ca_j = flushed((share_cal_j * bar_ca_j * d * f * (1 - fca_j) * __powf(q10_cal, warm)) * 0.45);
    const float i_ca_s = flushed((share_cal_s * bar_ca_s * d * f * (1 - fca_s) * __powf(q10_cal, warm)) * 0.45);
    const float i_ca = i_ca_j + i_ca_s;
    rate[at + 42] = flushed(quotient(-i_ca * capacity, v_myo * 2 * faraday) * 1e3);
    const float i_cak = flushed((bar_k * d * f * (share_cal_j * (1 - fca_j) + share_cal_s * (1 - fca_s)) *
            __powf(q10_cal, warm)) * 0.45);
    const float i_cana_j = flushed((share_cal_j * bar_na_j * d * f * (1 - fca_j) * __powf(q10_cal, warm)) * 0.45);
    const float i_cana_s = flushed((share_cal_s * bar_na_s * d * f * (1 - fca_s) * __powf(q10_cal, warm)) * 0.45);

    // Exchange of sodium and calcium
    const float ka_j = flushed(1 / (1 + pow((double)quotient(kd_act, ca_j), 3.0)));
    const float ka_s = flushed(1 / (1 + pow((double)quotient(kd_act, ca_s), 3.0)));
    const float s1_j = flushed(fast_exp(nu * v * fort) * pow((double)na_j, 3.0) * ca_o);
    const float s1_s = flushed(fast_exp(nu * v * fort) * pow((double)na_s, 3.0) * ca_o);
    const float s2_j = flushed(fast_exp((nu - 1) * v * fort) * pow((double)na_o, 3.0) * ca_j);
    const float s3_j = flushed((km_cai * pow((double)na_o, 3.0) * (1 + pow((double)quotient(na_j, km_nai), 3.0)) +
            pow((double)km_nao, 3.0) * ca_j + pow((double)km_nai, 3.0) * ca_o * (1 + quotient(ca_j, km_cai)) +
            km_cao * pow((double)na_j, 3.0) + pow((double)na_j, 3.0) * ca_o + pow((double)na_o, 3.0) * ca_j) *
            (1 + k_sat * fast_exp((nu - 1) * v * fort)));
    const float s2_s = flushed(fast_exp((nu - 1) * v * fort) * pow((double)na_o, 3.0) * ca_s);
    const float s3_s = flushed((km_cai * pow((double)na_o, 3.0) * (1 + pow((double)quotient(na_s, km_nai), 3.0)) +
            pow((double)km_nao, 3.0) * ca_s + pow((double)km_nai, 3.0) * ca_o * (1 + quotient(ca_s, km_cai)) +
            km_cao * pow((double)na_s, 3.0) + pow((double)na_s, 3.0) * ca_o + pow((double)na_o, 3.0) * ca_s) *
            (1 + k_sat * fast_exp((nu - 1) * v * fort)));
    const float i_ncx_j = quotient(share_j * i_ncx_most * __powf(q10_ncx, warm) * ka_j * (s1_j - s2_j), s3_j);
    const float i_ncx_s = quotient(share_s * i_ncx_most * __powf(q10_ncx, warm) * ka_s * (s1_s - s2_s), s3_s);
    const float i_ncx = i_ncx_j + i_ncx_s;
    rate[at + 44] = flushed(quotient(2 * i_ncx * capacity, v_myo * 2 * faraday) * 1e3);

    // Calcium: pump of the membrane, background
    const float i_pca_j = quotient(share_j * __powf(q10_slcap, warm) * i_slcap_most * fast_pow(ca_j, 1.6f),
            __powf(km_pca, 1.6f) + fast_pow(ca_j, 1.6f));
    const float i_pca_s = quotient(share_s * __powf(q10_slcap, warm) * i_slcap_most * fast_pow(ca_s, 1.6f),
            __powf(km_pca, 1.6f) + fast_pow(ca_s, 1.6f));
    const float i_pca = i_pca_j + i_pca_s;
    rate[at + 43] = flushed(quotient(-i_pca * capacity, v_myo * 2 * faraday) * 1e3);
    const float i_cab_j = share_j * g_cab * (v - e_ca_j);
    const float i_cab_s = share_s * g_cab * (v - e_ca_s);
    const float i_cab = i_cab_j + i_cab_s;
    rate[at + 45] = flushed(quotient(-i_cab * capacity, v_myo * 2 * faraday) * 1e3);

    // The calcium store: release, pump, leak
    const float sr_most = 15;
    const float sr_least = 1;
    const float k_casr = sr_most - quotient(sr_most - sr_least, 1 + fast_pow(quotient(ec50_sr, ca_sr), 2.5f));
    const float ko_sr = quotient(ko_ca, k_casr);
    const float ki_sr = ki_ca * k_casr;
    const float closed = 1 - ryr_r - ryr_o - ryr_i;
    rate[at + 13] = flushed((k_im * closed - ki_sr * ca_j * ryr_r) -
            (ko_sr * pow((double)ca_j, 2.0) * ryr_r - k_om * ryr_o));
    rate[at + 14] = flushed((ko_sr * pow((double)ca_j, 2.0) * ryr_r - k_om * ryr_o) -
            (ki_sr * ca_j * ryr_o - k_im * ryr_i));
    rate[at + 15] = flushed((ki_sr * ca_j * ryr_o - k_im * ryr_i) -
            (k_om * ryr_i - ko_sr * pow((double)ca_j, 2.0) * closed));
    const float release = k_s * ryr_o * (ca_sr - ca_j);
    const float uptake = quotient( __powf(q10_srcap, warm) * srcap_most *
            (fast_pow(quotient(ca_i, km_f), hill) - fast_pow(quotient(ca_sr, km_r), hill)), 1 +
            fast_pow(quotient(ca_i, km_f), hill) + fast_pow(quotient(ca_sr, km_r), hill));
    const float leak = flushed(5.348e-6 * (ca_sr - ca_j));

    // Buffers of sodium and calcium
    rate[at + 16] = on_na * na_j * (most_naj - nab_j) - off_na * nab_j;
    rate[at + 17] = on_na * na_s * (most_nas - nab_s) - off_na * nab_s;
    rate[at + 18] = on_tncl * ca_i * (most_tncl - tnc_l) - off_tncl * tnc_l;
    rate[at + 19] = on_tnchc * ca_i * (most_tnch - tnc_hc - tnc_hm) - off_tnchc * tnc_hc;
    rate[at + 20] = on_tnchm * mg_i * (most_tnch - tnc_hc - tnc_hm) - off_tnchm * tnc_hm;
    rate[at + 21] = 0;
    rate[at + 22] = on_myoc * ca_i * (most_myo - myo_c - myo_m) - off_myoc * myo_c;
    rate[at + 23] = on_myom * mg_i * (most_myo - myo_c - myo_m) - off_myom * myo_m;
    rate[at + 24] = on_sr * ca_i * (most_sr - srb) - off_sr * srb;
    const float bound_i = rate[at + 18] + rate[at + 19] + rate[at + 20] + rate[at + 21] + rate[at + 22] +
                          rate[at + 23] + rate[at + 24];
    rate[at + 25] = on_sll * ca_j * (most_sllj - sll_j) - off_sll * sll_j;
    rate[at + 26] = on_sll * ca_s * (most_slls - sll_s) - off_sll * sll_s;
    rate[at + 27] = on_slh * ca_j * (most_slhj - slh_j) - off_slh * slh_j;
    rate[at + 28] = on_slh * ca_s * (most_slhs - slh_s) - off_slh * slh_s;
    const float bound_j = rate[at + 25] + rate[at + 27];
    const float bound_s = rate[at + 26] + rate[at + 28];

    // Concentrations
    rate[at + 29] = on_csqn * ca_sr * (most_csqn - csqn) - off_csqn * csqn;
    const float per_sr = quotient(1, v_sr);
    rate[at + 30] = uptake * v_myo * per_sr - (leak * v_myo * per_sr + release) - rate[at + 29];
    const float i_na_all_j = i_na_j + i_nab_j + 3 * i_ncx_j + 3 * i_nak_j + i_cana_j;
    const float i_na_all_s = i_na_s + i_nab_s + 3 * i_ncx_s + 3 * i_nak_s + i_cana_s;
    rate[at + 31] = quotient(-i_na_all_j * capacity, v_jn * faraday) + quotient(flow_na_js, v_jn) * (na_s - na_j) -
            rate[at + 16];
    const float per_sl = quotient(1, v_sl);
    rate[at + 32] = quotient(-i_na_all_s * capacity * per_sl, faraday) + flow_na_js * per_sl * (na_j - na_s) +
            flow_na_sm * per_sl * (na_i - na_s) - rate[at + 17];
    rate[at + 33] = quotient(flow_na_sm, v_myo) * (na_s - na_i);
    const float i_k_all = i_to + i_kr + i_ks + i_ki - 2 * i_nak + i_cak + i_kp;
    rate[at + 34] = 0;
    const float i_ca_all_j = i_ca_j + i_cab_j + i_pca_j - 2 * i_ncx_j;
    const float i_ca_all_s = i_ca_s + i_cab_s + i_pca_s - 2 * i_ncx_s;
    rate[at + 35] = quotient(-i_ca_all_j * capacity, v_jn * 2 * faraday) + quotient(flow_ca_js, v_jn) *
            (ca_s - ca_j) - bound_j + quotient(release * v_sr, v_jn) + quotient(leak * v_myo, v_jn);
    rate[at + 36] = quotient(-i_ca_all_s * capacity, v_sl * 2 * faraday) + quotient(flow_ca_js, v_sl) *
            (ca_j - ca_s) + quotient(flow_ca_sm, v_sl) * (ca_i - ca_s) - bound_s;
    rate[at + 37] = -uptake - bound_i + quotient(flow_ca_sm, v_myo) * (ca_s - ca_i);

    // A pulse of current at the beginning of every cycle, and the membrane's potential
    float pulse;
    if (fmod(time, cycle) <= 5)
        pulse = 9.5;
    else
        pulse = 0.0;
    const float i_na_all = i_na_all_j + i_na_all_s;
    const float i_cl_all = i_clca + i_clb;
    const float i_ca_all = i_ca_all_j + i_ca_all_s;
    const float i_all = i_na_all + i_cl_all + i_ca_all + i_k_all;
    rate[at + 38] = -(i_all - pulse);

    rate[at + 40] = 0;
    rate[at + 41] = 0;
}

// Calmodulin, calcineurin and the kinase CaMKII in one compartment, whose calcium is ca.
__device__ void calmodulin(float time, float *state, float *rate, int at, float *parameter, int parameter_at,
                           float *shared_ca, int shared_ca_at, float ca)
{
    const float b_all = parameter[parameter_at + 1];
    const float kinase = parameter[parameter_at + 2];
    const float can_all = parameter[parameter_at + 3];
    const float pp1 = parameter[parameter_at + 4];
    const float k = parameter[16];
    const float mg = parameter[17];

    const float cam = state[at];
    const float ca2cam = state[at + 1];
    const float ca4cam = state[at + 2];
    const float camb = state[at + 3];
    const float ca2camb = state[at + 4];
    const float ca4camb = state[at + 5];
    const float pb2 = state[at + 6];
    const float pb = state[at + 7];
    const float pt = state[at + 8];
    const float pt2 = state[at + 9];
    const float pa = state[at + 10];
    const float ca4can = state[at + 11];
    const float cam_can = state[at + 12];
    const float ca2cam_can = state[at + 13];
    const float ca4cam_can = state[at + 14];

    // Rates of binding and of letting go
    float kd02, kd24;
    if (mg <= 1) {
        kd02 = flushed(0.0025 * (1 + k / 0.94 - mg / 0.012) * (1 + k / 8.1 + mg / 0.022));
        kd24 = flushed(0.128 * (1 + k / 0.64 + mg / 0.0014) * (1 + k / 13.0 - mg / 0.153));
    } else {
        kd02 = flushed(0.0025 * (1 + k / 0.94 - 1 / 0.012 + (mg - 1) / 0.060) *
                (1 + k / 8.1 + 1 / 0.022 + (mg - 1) / 0.068));
        kd24 = flushed(0.128 * (1 + k / 0.64 + 1 / 0.0014 + (mg - 1) / 0.005) *
                (1 + k / 13.0 - 1 / 0.153 + (mg - 1) / 0.150));
    }
    const float k20 = 10;
    const float k02 = quotient(k20, kd02);
    const float k42 = 500;
    const float k24 = quotient(k42, kd24);
    const float off0 = 0.0014;
    const float on0 = off0 / 0.2;
    const float off2 = off0 / 100;
    const float on2 = on0;
    const float off4 = off2;
    const float on4 = on0;
    const float k20b = k20 / 100;
    const float k02b = k02;
    const float k42b = k42;
    const float k24b = k24;
    const float kbi = 2.2;
    const float kib = kbi / 33.5e-3;
    const float kpp1 = 1.72;
    const float km_pp1 = 11.5;
    const float kib2 = kib;
    const float kb2i = kib2 * 5;
    const float kb24 = k24;
    const float kb42 = k42 * 33.5e-3 / 5;
    const float kta = kbi / 1000;
    const float kat = kib;
    const float kt42 = k42 * 33.5e-6 / 5;
    const float kt24 = k24;
    const float kat2 = kib;
    const float kt2a = kib * 5;
    const float can_off = 1;
    const float can_on = can_off / 0.5;
    const float can4_on = 46;
    const float can4_off = 0.0013;
    const float can2_on = can4_on;
    const float can2_off = 2508 * can4_off;
    const float can0_on = can4_on;
    const float can0_off = 165 * can2_off;
    const float k02can = k02;
    const float k20can = k20 / 165;
    const float k24can = k24;
    const float k42can = k20 / 2508;

    // Fluxes
    const float r02 = flushed(k02 * pow((double)ca, 2.0) * cam - k20 * ca2cam);
    const float r24 = flushed(k24 * pow((double)ca, 2.0) * ca2cam - k42 * ca4cam);
    const float free_b = b_all - camb - ca2camb - ca4camb;
    const float r02b = flushed(k02b * pow((double)ca, 2.0) * camb - k20b * ca2camb);
    const float r24b = flushed(k24b * pow((double)ca, 2.0) * ca2camb - k42b * ca4camb);
    const float r0b = on0 * cam * free_b - off0 * camb;
    const float r2b = on2 * ca2cam * free_b - off2 * ca2camb;
    const float r4b = on4 * ca4cam * free_b - off4 * ca4camb;
    const float ca2can = can_all - ca4can - cam_can - ca2cam_can - ca4cam_can;
    const float r_can = flushed(can_on * pow((double)ca, 2.0) * ca2can - can_off * ca4can);
    const float r02can = flushed(k02can * pow((double)ca, 2.0) * cam_can - k20can * ca2cam_can);
    const float r24can = flushed(k24can * pow((double)ca, 2.0) * ca2cam_can - k42can * ca4cam_can);
    const float r0can = can0_on * cam * ca4can - can0_off * cam_can;
    const float r2can = can2_on * ca2cam * ca4can - can2_off * ca2cam_can;
    const float r4can = can4_on * ca4cam * ca4can - can4_off * ca4cam_can;
    const float pi = 1 - pb2 - pb - pt - pt2 - pa;
    const float r_ib2 = kib2 * ca2cam * pi - kb2i * pb2;
    const float r_b2b = flushed(kb24 * pow((double)ca, 2.0) * pb2 - kb42 * pb);
    const float r_ib = kib * ca4cam * pi - kbi * pb;
    const float active = pb + pt + pt2 + pa;
    const float kbt = flushed(0.055 * active + 0.0074 * pow((double)active, 2.0) + 0.015 * pow((double)active, 3.0));
    const float r_bt = kbt * pb - quotient(kpp1 * pp1 * pt, km_pp1 + kinase * pt);
    const float r_tt2 = flushed(kt42 * pt - kt24 * pow((double)ca, 2.0) * pt2);
    const float r_ta = kta * pt - kat * ca4cam * pa;
    const float r_t2a = kt2a * pt2 - kat2 * ca2cam * pa;
    const float r_t2b2 = quotient(kpp1 * pp1 * pt2, km_pp1 + kinase * pt2);
    const float r_ai = quotient(kpp1 * pp1 * pa, km_pp1 + kinase * pa);

    const float d_cam = flushed(1e-3 * (-r02 - r0b - r0can));
    const float d_ca2cam = flushed(1e-3 * (r02 - r24 - r2b - r2can + kinase * (-r_ib2 + r_t2a)));
    const float d_ca4cam = flushed(1e-3 * (r24 - r4b - r4can + kinase * (-r_ib + r_ta)));
    const float d_camb = flushed(1e-3 * (r0b - r02b));
    const float d_ca2camb = flushed(1e-3 * (r02b + r2b - r24b));
    const float d_ca4camb = flushed(1e-3 * (r24b + r4b));
    const float d_pb2 = flushed(1e-3 * (r_ib2 - r_b2b + r_t2b2));
    const float d_pb = flushed(1e-3 * (r_ib + r_b2b - r_bt));
    const float d_pt = flushed(1e-3 * (r_bt - r_ta - r_tt2));
    const float d_pt2 = flushed(1e-3 * (r_tt2 - r_t2a - r_t2b2));
    const float d_pa = flushed(1e-3 * (r_ta + r_t2a - r_ai));
    const float d_ca4can = flushed(1e-3 * (r_can - r0can - r2can - r4can));
    const float d_cam_can = flushed(1e-3 * (r0can - r02can));
    const float d_ca2cam_can = flushed(1e-3 * (r2can + r02can - r24can));
    const float d_ca4cam_can = flushed(1e-3 * (r4can + r24can));

    rate[at] = d_cam;
    rate[at + 1] = d_ca2cam;
    rate[at + 2] = d_ca4cam;
    rate[at + 3] = d_camb;
    rate[at + 4] = d_ca2camb;
    rate[at + 5] = d_ca4camb;
    rate[at + 6] = d_pb2;
    rate[at + 7] = d_pb;
    rate[at + 8] = d_pt;
    rate[at + 9] = d_pt2;
    rate[at + 10] = d_pa;
    rate[at + 11] = d_ca4can;
    rate[at + 12] = d_cam_can;
    rate[at + 13] = d_ca2cam_can;
    rate[at + 14] = d_ca4cam_can;

    // As in the original, this overwrites one of the first rates.
    rate[shared_ca_at] = flushed(1e-3 * (2 * kinase * (r_tt2 - r_b2b) - 2 *
            (r02 + r24 + r02b + r24b + r_can + r02can + r24can)));
}

// What the compartments exchange.
__device__ void exchange(int time, float *state, float *rate, int at, int dyad, int sl, int cyt, float *parameter,
                         float *shared_ca)
{
    const float b_all = parameter[1];
    const float kinase = parameter[2];

    rate[at + 35] = flushed(rate[at + 35] + 1e-3 * shared_ca[0]);
    rate[at + 36] = flushed(rate[at + 36] + 1e-3 * shared_ca[1]);
    rate[at + 37] = flushed(rate[at + 37] + 1e-3 * shared_ca[2]);

    const float v_myo = 2.1454e-11;
    const float v_dyad = 1.7790e-14;
    const float v_sl = 6.6013e-13;
    const float flow = 8.587e-15;
    const float off0 = 0.0014;
    const float on0 = off0 / 0.2;
    const float off2 = off0 / 100;
    const float on2 = on0;
    const float on4 = on0;
    const float cam_all = state[dyad] + state[dyad + 1] + state[dyad + 2] + state[dyad + 3] + state[dyad + 4] +
                          state[dyad + 5] +
                          kinase * (state[dyad + 6] + state[dyad + 7] + state[dyad + 8] + state[dyad + 9]) +
                          state[dyad + 12] + state[dyad + 13] + state[dyad + 14];
    const float free_b = b_all - cam_all;
    const float ds0 = flushed(1e-3 * (off0 * state[dyad] - on0 * free_b * state[sl]));
    const float ds2 = flushed(1e-3 * (off2 * state[dyad + 1] - on2 * free_b * state[sl + 1]));
    const float ds4 = flushed(1e-3 * (off2 * state[dyad + 2] - on4 * free_b * state[sl + 2]));
    const float sm0 = flow * (state[sl] - state[cyt]);
    const float sm2 = flow * (state[sl + 1] - state[cyt + 1]);
    const float sm4 = flow * (state[sl + 2] - state[cyt + 2]);

    rate[dyad] = rate[dyad] - ds0;
    rate[dyad + 1] = rate[dyad + 1] - ds2;
    rate[dyad + 2] = rate[dyad + 2] - ds4;
    rate[sl] = rate[sl] + quotient(ds0 * v_dyad, v_sl) - quotient(sm0, v_sl);
    rate[sl + 1] = rate[sl + 1] + quotient(ds2 * v_dyad, v_sl) - quotient(sm2, v_sl);
    rate[sl + 2] = rate[sl + 2] + quotient(ds4 * v_dyad, v_sl) - quotient(sm4, v_sl);
    rate[cyt] = rate[cyt] + quotient(sm0, v_myo);
    rate[cyt + 1] = rate[cyt + 1] + quotient(sm2, v_myo);
    rate[cyt + 2] = rate[cyt + 2] + quotient(sm4, v_myo);
}

// All rates of change of one cell.
__device__ void rates(int time, float *state, float *parameter, float *rate, float *shared_ca)
{
    const int whole = 0, dyad = 46, sl = 61, cyt = 76;

    excitation(time, state, rate, whole, parameter);

    const float ca_dyad = flushed(state[35] * 1e3);
    calmodulin(time, state, rate, dyad, parameter, 0, shared_ca, 0, ca_dyad);
    const float ca_sl = flushed(state[36] * 1e3);
    calmodulin(time, state, rate, sl, parameter, 5, shared_ca, 1, ca_sl);
    const float ca_cyt = flushed(state[37] * 1e3);
    calmodulin(time, state, rate, cyt, parameter, 10, shared_ca, 2, ca_cyt);

    exchange(time, state, rate, whole, dyad, sl, cyt, parameter, shared_ca);

    for (int i = 0; i < STATES; i++) {
        if (isnan(rate[i]) == 1)
            rate[i] = 0.0001;
        else if (isinf(rate[i]) == 1)
            rate[i] = 0.0001;
    }
}

#define R(n) slope[(n) * STATES + i]

// One step of size h: 13 evaluations, the new values and their errors.
__device__ void fehlberg(float h, float time, float *from, float *to, float *parameter, float *error, float *state,
                         float *slope, float *shared_ca)
{
    const float h2_27 = (float)(2.0 / 27.0) * h;
    float now;
    int i, n;

    for (n = 0; n < 13; n++) {
        if (n == 0) {
            now = time;
            for (i = 0; i < STATES; i++)
                state[i] = from[i];
        } else if (n == 1) {
            now = time + h2_27;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h2_27 * R(0);
        } else if (n == 2) {
            const float b1 = 1.0 / 36.0, b2 = 3.0 / 36.0;
            now = time + (float)(1.0 / 9.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b2 * R(1));
        } else if (n == 3) {
            const float b1 = 1.0 / 24.0, b3 = 3.0 / 24.0;
            now = time + (float)(1.0 / 6.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b3 * R(2));
        } else if (n == 4) {
            const float b1 = 20.0 / 48.0, b3 = -75.0 / 48.0, b4 = 75.0 / 48.0;
            now = time + (float)(5.0 / 12.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b3 * R(2) + b4 * R(3));
        } else if (n == 5) {
            const float b1 = 1.0 / 20.0, b4 = 5.0 / 20.0, b5 = 4.0 / 20.0;
            now = time + (float)(1.0 / 2.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b4 * R(3) + b5 * R(4));
        } else if (n == 6) {
            const float b1 = -25.0 / 108.0, b4 = 125.0 / 108.0, b5 = -260.0 / 108.0, b6 = 250.0 / 108.0;
            now = time + (float)(5.0 / 6.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b4 * R(3) + b5 * R(4) + b6 * R(5));
        } else if (n == 7) {
            const float b1 = 31.0 / 300.0, b5 = 61.0 / 225.0, b6 = -2.0 / 9.0, b7 = 13.0 / 900.0;
            now = time + (float)(1.0 / 6.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b5 * R(4) + b6 * R(5) + b7 * R(6));
        } else if (n == 8) {
            const float b1 = 2.0, b4 = -53.0 / 6.0, b5 = 704.0 / 45.0, b6 = -107.0 / 9.0, b7 = 67.0 / 90.0, b8 = 3.0;
            now = time + (float)(2.0 / 3.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b4 * R(3) + b5 * R(4) + b6 * R(5) + b7 * R(6) + b8 * R(7));
        } else if (n == 9) {
            const float b1 = -91.0 / 108.0, b4 = 23.0 / 108.0, b5 = -976.0 / 135.0, b6 = 311.0 / 54.0;
            const float b7 = -19.0 / 60.0, b8 = 17.0 / 6.0, b9 = -1.0 / 12.0;
            now = time + (float)(1.0 / 3.0) * h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b4 * R(3) + b5 * R(4) + b6 * R(5) + b7 * R(6) + b8 * R(7) +
                                          b9 * R(8));
        } else if (n == 10) {
            const float b1 = 2383.0 / 4100.0, b4 = -341.0 / 164.0, b5 = 4496.0 / 1025.0, b6 = -301.0 / 82.0;
            const float b7 = 2133.0 / 4100.0, b8 = 45.0 / 82.0, b9 = 45.0 / 164.0, b10 = 18.0 / 41.0;
            now = time + h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b4 * R(3) + b5 * R(4) + b6 * R(5) + b7 * R(6) + b8 * R(7) +
                                          b9 * R(8) + b10 * R(9));
        } else if (n == 11) {
            const float b1 = 3.0 / 205.0, b6 = -6.0 / 41.0, b7 = -3.0 / 205.0, b8 = -3.0 / 41.0, b9 = 3.0 / 41.0;
            const float b10 = 6.0 / 41.0;
            now = time;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b6 * R(5) + b7 * R(6) + b8 * R(7) + b9 * R(8) + b10 * R(9));
        } else if (n == 12) {
            const float b1 = -1777.0 / 4100.0, b4 = -341.0 / 164.0, b5 = 4496.0 / 1025.0, b6 = -289.0 / 82.0;
            const float b7 = 2193.0 / 4100.0, b8 = 51.0 / 82.0, b9 = 33.0 / 164.0, b10 = 12.0 / 41.0;
            now = time + h;
            for (i = 0; i < STATES; i++)
                state[i] = from[i] + h * (b1 * R(0) + b4 * R(3) + b5 * R(4) + b6 * R(5) + b7 * R(6) + b8 * R(7) +
                                          b9 * R(8) + b10 * R(9) + R(11));
        }

        rates(now, state, parameter, &slope[n * STATES], shared_ca);
    }

    const float c1 = 41.0 / 840.0, c6 = 34.0 / 105.0, c7 = 9.0 / 35.0, c9 = 9.0 / 280.0;
    for (i = 0; i < STATES; i++)
        to[i] = from[i] + h * (c1 * (R(0) + R(10)) + c6 * R(5) + c7 * (R(6) + R(7)) + c9 * (R(8) + R(9)));

    const float factor = -41.0 / 840.0;
    for (i = 0; i < STATES; i++)
        error[i] = fabs(factor * (R(0) + R(10) - R(11) - R(12)));
}

extern "C" __global__ void solve_cells(int cells, int steps, float *x, float *y, float *parameters, float *shared_ca,
                                       float *error, float *scale, float *size, float *state, float *slope)
{
    const int cell = blockIdx.x * LANES + threadIdx.x;
    const int own = cell * STATES;
    const int own_parameters = cell * PARAMETERS;
    const int own_slope = cell * 13 * STATES;
    const int own_shared_ca = cell * 3;

    const float exponent = 1.0 / 7.0;
    const float h_first = 1;
    float h = h_first;
    const int first = 0;
    const float tolerance = quotient(10, steps - first);

    if (steps < first || h <= 0.0)
        return;
    if (steps == first)
        return;
    if (h > (steps - first))
        h = (float)steps - (float)first;

    if (cell < cells) {
        for (int k = 1; k < (steps + 1); k++) {
            const long y_before = cell * ((steps + 1) * STATES) + (k - 1) * STATES;
            const long y_now = cell * ((steps + 1) * STATES) + k * STATES;
            const long x_now = cell * (steps + 1) + k;

            x[x_now] = (float)k;
            h = h_first;
            float factor = 1.0;

            int tried;
            for (tried = 0; tried < TRIES; tried++) {
                int wrong = 0, outside = 0;
                float least = MOST_SCALE;

                fehlberg(h, x[x_now], &y[y_before], &y[y_now], &parameters[own_parameters], &error[own], &state[own],
                         &slope[own_slope], &shared_ca[own_shared_ca]);

                for (int i = 0; i < STATES; i++)
                    if (error[own + i] > 0)
                        wrong = 1;
                if (wrong != 1) {
                    factor = MOST_SCALE;
                    break;
                }

                for (int i = 0; i < STATES; i++) {
                    if (y[y_before + i] == 0.0)
                        size[own + i] = tolerance;
                    else
                        size[own + i] = fabs(y[y_before + i]);
                    scale[own + i] =
                        flushed(0.8 * fast_pow(quotient(tolerance * size[own + i], error[own + i]), exponent));
                    if (scale[own + i] < least)
                        least = scale[own + i];
                }
                factor = SMALLER(LARGER(least, LEAST_SCALE), MOST_SCALE);

                for (int i = 0; i < STATES; i++)
                    if (error[own + i] > (tolerance * size[own + i]))
                        outside = 1;
                if (outside == 0)
                    break;

                h = h * factor;
                if (h >= 0.9)
                    h = 0.9;
                if (x[x_now] + h > (float)steps)
                    h = (float)steps - x[x_now];
                else if (x[x_now] + h + 0.5 * h > (float)steps)
                    h = 0.5 * h;
            }

            x[x_now] = x[x_now] + h;

            if (tried >= TRIES)
                return;
        }
    }
}
