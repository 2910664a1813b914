// Preloaded into a test process: lets allocations of the library and its extension fail, the n-th one or all
// from the n-th on. Every operator new counts, and malloc, calloc and mmap where liborlop itself calls them.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
}

namespace {

std::atomic<bool> is_armed{false};
std::atomic<long> allocations{0};
std::atomic<long> first_failure{0};  // 0: none fails
std::atomic<bool> is_lasting{false};

// Where liborlop's code lies.
std::atomic<std::uintptr_t> library_begin{0};
std::atomic<std::uintptr_t> library_end{0};

int find_library(dl_phdr_info* info, std::size_t, void*) {
  if (std::strstr(info->dlpi_name, "/liborlop.so") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    library_begin = info->dlpi_addr + part.p_vaddr;
    library_end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
  }
  return 1;
}

bool is_library(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return address >= library_begin && address < library_end;
}

bool must_fail() {
  if (!is_armed) return false;
  const long number = ++allocations;
  const long first = first_failure;
  return first != 0 && (number == first || (is_lasting && number > first));
}

}  // namespace

/// From now on the `first`-th allocation fails, and with `lasting` every later one; 0 only counts.
extern "C" void orlop_fail_allocations(long first, int lasting) {
  dl_iterate_phdr(&find_library, nullptr);
  allocations = 0;
  first_failure = first;
  is_lasting = lasting != 0;
  is_armed = true;
}

/// Lets allocations succeed again; how many there were.
extern "C" long orlop_end_allocation_faults() {
  is_armed = false;
  return allocations;
}

void* operator new(std::size_t bytes) {
  void* const memory = must_fail() ? nullptr : __libc_malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  void* const memory = must_fail() ? nullptr : std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

extern "C" void* malloc(std::size_t bytes) noexcept {
  return is_library(__builtin_return_address(0)) && must_fail() ? nullptr : __libc_malloc(bytes);
}

extern "C" void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return is_library(__builtin_return_address(0)) && must_fail() ? nullptr : __libc_calloc(count, bytes);
}

extern "C" void* mmap(void* address, std::size_t bytes, int protection, int flags, int file,
                      off_t offset) noexcept {
  using Mmap = void* (*)(void*, std::size_t, int, int, int, off_t);
  static const auto real = reinterpret_cast<Mmap>(dlsym(RTLD_NEXT, "mmap"));
  if (is_library(__builtin_return_address(0)) && must_fail()) return MAP_FAILED;
  return real(address, bytes, protection, flags, file, offset);
}
