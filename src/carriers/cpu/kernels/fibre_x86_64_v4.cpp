// The loops of reductions for x86-64-v4 processors.
#define ORLOP_INSTRUCTION_SET x86_64_v4
#include "carriers/cpu/kernels/fibre_unit.hpp"
