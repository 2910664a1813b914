// The progress callbacks of each thread.
#include <atomic>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/carriers/tiled_evictable/streaming.hpp"

namespace orlop::inline v0::streaming {

struct ProgressScope::Entry {
  ProgressCallback callback;
  std::atomic<bool> has_ended{false};  // by whichever thread; the entry goes when its own one looks next
};

namespace {

template <class Entry>
std::vector<std::shared_ptr<Entry>>& entries() {
  thread_local std::vector<std::shared_ptr<Entry>> of_this_thread;
  return of_this_thread;
}

}  // namespace

ProgressScope::ProgressScope(ProgressCallback callback) : entry_(std::make_shared<Entry>()) {
  if (!callback) raise<TypeError>("progress", "the callback must be callable: got none");
  entry_->callback = std::move(callback);
  entries<Entry>().push_back(entry_);
}

ProgressScope::~ProgressScope() {
  entry_->has_ended.store(true, std::memory_order_release);
  std::erase(entries<Entry>(), entry_);
}

ProgressCallback progress_callback() {
  auto& scopes = entries<ProgressScope::Entry>();
  std::erase_if(scopes, [](const auto& entry) { return entry->has_ended.load(std::memory_order_acquire); });
  return scopes.empty() ? ProgressCallback() : scopes.back()->callback;
}

}  // namespace orlop::inline v0::streaming
