// Stands in for the Apple header while apple_runtime.cpp is compiled elsewhere: names only, nothing that runs.
#pragma once
#include "objc/runtime.h"
extern "C" {
void objc_msgSend(void);
void objc_msgSend_fpret(void);
void objc_msgSend_stret(void);
}
