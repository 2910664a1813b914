// Moving whole cache lines on x86-64-v3 processors.
#define ORLOP_INSTRUCTION_SET x86_64_v3
#include "operation/cache_lines_unit.hpp"
