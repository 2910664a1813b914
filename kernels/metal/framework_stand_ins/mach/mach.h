// Stands in for the Apple header while apple_runtime.cpp is compiled elsewhere: names only, nothing that runs.
#pragma once
#include <cstdint>
typedef std::uint32_t task_id_token_t;
typedef int kern_return_t;
