// Stands in for the Apple header while apple_runtime.cpp is compiled elsewhere: names only, nothing that runs.
#pragma once
typedef struct __IOSurface* IOSurfaceRef;
