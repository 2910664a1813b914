// Stands in for the Apple header while apple_runtime.cpp is compiled elsewhere: names only, nothing that runs.
#pragma once
struct objc_object {};
typedef objc_object* id;
typedef struct objc_selector* SEL;
typedef struct objc_class* Class;
typedef struct objc_object Protocol;
typedef signed char BOOL;
typedef id (*IMP)(id, SEL, ...);
extern "C" {
SEL sel_registerName(const char* name);
id objc_lookUpClass(const char* name);
id objc_getClass(const char* name);
Protocol* objc_getProtocol(const char* name);
}
