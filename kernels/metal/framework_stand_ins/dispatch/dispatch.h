// Stands in for the Apple header while apple_runtime.cpp is compiled elsewhere: names only, nothing that runs.
#pragma once
typedef struct dispatch_queue_s* dispatch_queue_t;
typedef struct dispatch_data_s* dispatch_data_t;
