#pragma once
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
