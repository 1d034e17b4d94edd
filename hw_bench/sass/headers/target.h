#pragma once
#ifndef NV_IF_TARGET
#error this release of NVRTC lacks the macros of nv/target: take release 12.9 or later
#endif
#if !__has_include(<cuda/std/type_traits>)
#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#endif
