/* What a stand-in library is made of: functions that hand their name and their arguments, as 64-bit words, to one function of
   the process that loaded it. Arguments of the calls that are served are integers and pointers only. */
#include <stddef.h>

typedef unsigned long long word;
typedef void *P;           /* pointers, and handles that nobody looks into */
typedef unsigned int U;
typedef int I;

static int (*served_by)(const char *name, const word *arguments);

/* Begin (a function) or end (NULL) to serve: whoever calls behind the end, as destructors do, is told `CLOSED`. */
void serve(int (*function)(const char *, const word *)) { served_by = function; }

static int call(const char *name, const word *arguments) { return served_by ? served_by(name, arguments) : CLOSED; }

#define F0(name) int name(void) { return call(#name, NULL); }
#define F1(name, A) int name(A a) { word w[] = {(word)a}; return call(#name, w); }
#define F2(name, A, B) int name(A a, B b) { word w[] = {(word)a, (word)b}; return call(#name, w); }
#define F3(name, A, B, C) int name(A a, B b, C c) { word w[] = {(word)a, (word)b, (word)c}; return call(#name, w); }
#define F4(name, A, B, C, D) int name(A a, B b, C c, D d) { word w[] = {(word)a, (word)b, (word)c, (word)d}; return call(#name, w); }
#define F5(name, A, B, C, D, E) \
    int name(A a, B b, C c, D d, E e) { word w[] = {(word)a, (word)b, (word)c, (word)d, (word)e}; return call(#name, w); }
#define F8(name, A, B, C, D, E, F, G, H) \
    int name(A a, B b, C c, D d, E e, F f, G g, H h) \
    { word w[] = {(word)a, (word)b, (word)c, (word)d, (word)e, (word)f, (word)g, (word)h}; return call(#name, w); }
