// Small memory from the heap, large memory from the system, by way of a small cache of what was given back.
#include "storage/host_memory.hpp"

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "orlop/base/forever.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t least_huge = std::size_t{3} << 20;  // from here on in huge pages
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t least_large = std::numeric_limits<std::size_t>::max();
#else
constexpr std::size_t least_large = std::size_t{1} << 20;  // from here on not from the heap
#endif

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

struct Pages {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};

void unmap(Pages pages) noexcept {
  if (pages.memory != nullptr) munmap(pages.memory, pages.bytes);
}

/// Fresh zero pages, on the boundary of a huge page where they are to be huge.
Pages map(std::size_t bytes) noexcept {
  const std::size_t slack = bytes >= least_huge ? huge_page : 0;
  void* const mapped =
      mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return {};
  auto* const start = static_cast<std::byte*>(mapped);
  if (slack == 0) return {start, bytes};
  const std::size_t skipped = (slack - reinterpret_cast<std::uintptr_t>(mapped) % slack) % slack;
  unmap({skipped > 0 ? start : nullptr, skipped});
  unmap({skipped < slack ? start + skipped + bytes : nullptr, slack - skipped});
#ifdef MADV_HUGEPAGE
  madvise(start + skipped, bytes, MADV_HUGEPAGE);  // a hint
#endif
  return {start + skipped, bytes};
}

/// What was given back last. Nobody waits for its lock, so that it may be held while a process forks.
class Cache {
 public:
  /// Pages for `bytes` bytes, at most a quarter more than that; or nothing.
  Pages take(std::size_t bytes) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return {};
    Pages* best = nullptr;
    for (Pages& kept : kept_)
      if (kept.bytes >= bytes && kept.bytes - bytes <= bytes / 4 &&
          (best == nullptr || kept.bytes < best->bytes))
        best = &kept;
    if (best == nullptr) return {};
    bytes_ -= best->bytes;
    return std::exchange(*best, {});
  }

  void give(Pages pages) noexcept {
    if (pages.bytes <= most_bytes) {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock.owns_lock()) {
        // The places are used in turn: the next one holds what has been here longest.
        do {
          Pages& place = kept_[next_++ % kept_.size()];
          bytes_ -= place.bytes;
          unmap(std::exchange(place, {}));
        } while (bytes_ + pages.bytes > most_bytes);
        kept_[(next_ - 1) % kept_.size()] = pages;
        bytes_ += pages.bytes;
        return;
      }
    }
    unmap(pages);
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{64} << 20;
  std::mutex mutex_;
  std::array<Pages, 16> kept_{};
  std::size_t next_ = 0;
  std::size_t bytes_ = 0;
};

Cache& cache() noexcept {
  static Forever<Cache> instance;  // memory is given back until the very end
  return *instance;
}

std::shared_ptr<std::byte> from_heap(std::size_t bytes, bool is_zeroed) {
  std::size_t room = bytes + cache_line - 1;  // malloc is several times faster than aligned_alloc
  void* memory = is_zeroed ? std::calloc(room, 1) : std::malloc(room);
  if (memory == nullptr) return nullptr;
  std::shared_ptr<void> owner(memory, std::free);
  return {std::move(owner), static_cast<std::byte*>(std::align(cache_line, bytes, memory, room))};
}

}  // namespace

std::shared_ptr<std::byte> allocate_host_memory(std::size_t bytes, bool is_zeroed) {
  if (bytes < least_large) return from_heap(bytes, is_zeroed);
  const std::size_t room = round_up(bytes, least_huge > bytes ? std::size_t{1} << 16 : huge_page);
  Pages pages = cache().take(room);
  if (pages.memory == nullptr)
    pages = map(room);
  else if (is_zeroed)
    std::memset(pages.memory, 0, bytes);
  if (pages.memory == nullptr) return nullptr;
  return {pages.memory, [pages](std::byte*) noexcept { cache().give(pages); }};
}

}  // namespace orlop::inline v0
