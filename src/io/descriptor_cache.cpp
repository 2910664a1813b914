// A list of open files, least recently used last; idle ones are closed to stay within the limit.
#include "io/descriptor_cache.hpp"

#include <fcntl.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include "io/fork.hpp"

namespace orlop::inline v0::detail {

namespace {

// Guarded by io_mutex(). Plain pointers: nothing is destroyed at exit, so a late file still finds the list
// whole.
struct {
  CachedDescriptor* newest = nullptr;
  CachedDescriptor* oldest = nullptr;
  int count = 0;
} open_files;

void unlink_entry(CachedDescriptor& entry) {
  (entry.newer != nullptr ? entry.newer->older : open_files.newest) = entry.older;
  (entry.older != nullptr ? entry.older->newer : open_files.oldest) = entry.newer;
  entry.newer = entry.older = nullptr;
  --open_files.count;
}

void link_newest(CachedDescriptor& entry) {
  entry.older = open_files.newest;
  (entry.older != nullptr ? entry.older->newer : open_files.oldest) = &entry;
  open_files.newest = &entry;
  ++open_files.count;
}

// Takes the least recently used idle descriptor out of the cache; -1 where every one is in use.
int take_idle() {
  for (CachedDescriptor* entry = open_files.oldest; entry != nullptr; entry = entry->newer) {
    if (entry->users != 0) continue;
    unlink_entry(*entry);
    return std::exchange(entry->descriptor, -1);
  }
  return -1;
}

// A descriptor to close once the lock is free, or -1.
int take_excess() { return open_files.count > TemporaryFile::kOpenLimit ? take_idle() : -1; }

void close_if_open(IoCalls& calls, int descriptor) {
  if (descriptor >= 0) calls.close(descriptor);
}

// Room for one more file, found among our own where the process or the system has no descriptor left.
bool close_one_idle(IoCalls& calls) {
  int idle;
  {
    const std::lock_guard lock(io_mutex());
    idle = take_idle();
  }
  close_if_open(calls, idle);
  return idle >= 0;
}

bool is_out_of_descriptors(int result) { return result == -EMFILE || result == -ENFILE; }

template <class Call>
int making_room(IoCalls& calls, Call call) {
  int made;
  do {
    made = uninterrupted(call);
  } while (is_out_of_descriptors(made) && close_one_idle(calls));
  return made;
}

// -1 where the entry is not open.
int use_open(CachedDescriptor& entry) {
  const std::lock_guard lock(io_mutex());
  if (entry.descriptor < 0) return -1;
  ++entry.users;
  if (open_files.newest != &entry) {
    unlink_entry(entry);
    link_newest(entry);
  }
  return entry.descriptor;
}

}  // namespace

int open_making_room(IoCalls& calls, const std::string& path, int flags, unsigned mode) {
  return making_room(calls,
                     [&] { return calls.open(IoCalls::kWorkingDirectory, path.c_str(), flags, mode); });
}

int duplicate_making_room(IoCalls& calls, int descriptor) {
  return making_room(calls, [&] { return calls.duplicate(descriptor); });
}

int acquire_descriptor(IoCalls& calls, CachedDescriptor& entry, const std::string& path) {
  if (const int open = use_open(entry); open >= 0) return open;
  const int opened = open_making_room(calls, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
  return opened < 0 ? opened : adopt_descriptor(calls, entry, opened);
}

int adopt_descriptor(IoCalls& calls, CachedDescriptor& entry, int descriptor) {
  int closing = descriptor;
  int result;
  {
    const std::lock_guard lock(io_mutex());
    if (entry.discarded) {
      result = -ENOENT;
    } else if (entry.descriptor >= 0) {  // another thread was faster: one of the two is enough
      ++entry.users;
      result = entry.descriptor;
    } else {
      entry.descriptor = result = descriptor;
      entry.users = 1;
      link_newest(entry);
      closing = take_excess();
    }
  }
  close_if_open(calls, closing);
  return result;
}

void release_descriptor(IoCalls& calls, CachedDescriptor& entry) noexcept {
  int closing;
  {
    const std::lock_guard lock(io_mutex());
    if (--entry.users == 0 && entry.discarded)
      closing = std::exchange(entry.descriptor, -1);
    else
      closing = take_excess();
  }
  close_if_open(calls, closing);
}

void discard_descriptor(IoCalls& calls, CachedDescriptor& entry) noexcept {
  int closing = -1;
  {
    const std::lock_guard lock(io_mutex());
    if (entry.discarded || entry.descriptor < 0) {
      entry.discarded = true;
      return;
    }
    entry.discarded = true;
    unlink_entry(entry);
    if (entry.users == 0) closing = std::exchange(entry.descriptor, -1);
  }
  close_if_open(calls, closing);
}

// The threads that used a descriptor are not in the child; the descriptors are, and stay readable.
void forget_parent_users() noexcept {
  for (CachedDescriptor* entry = open_files.newest; entry != nullptr; entry = entry->older) entry->users = 0;
}

int open_temporary_files() noexcept {
  const std::lock_guard lock(io_mutex());
  return open_files.count;
}

}  // namespace orlop::inline v0::detail
