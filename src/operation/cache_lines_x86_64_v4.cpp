// Moving whole cache lines on x86-64-v4 processors.
#define ORLOP_INSTRUCTION_SET x86_64_v4
#include "operation/cache_lines_unit.hpp"
