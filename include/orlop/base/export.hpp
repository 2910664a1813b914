// Symbol visibility of the one shared library.
#pragma once

#if defined(_WIN32)
#if defined(ORLOP_BUILDING)
#define ORLOP_API __declspec(dllexport)
#else
#define ORLOP_API __declspec(dllimport)
#endif
#else
#define ORLOP_API __attribute__((visibility("default")))
#endif
