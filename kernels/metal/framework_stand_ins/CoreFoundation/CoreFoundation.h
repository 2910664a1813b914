// Stands in for the Apple header while apple_runtime.cpp is compiled elsewhere: names only, nothing that runs.
#pragma once
#include <cmath>
#include <cstdint>
typedef std::uint64_t CFTimeInterval;
typedef struct __CFString* CFStringRef;
