// Stands in for the Apple header while apple_runtime.cpp is compiled elsewhere: names only, nothing that runs.
#pragma once
#define TARGET_OS_OSX 1
#define TARGET_OS_MAC 1
#define TARGET_OS_IPHONE 0
