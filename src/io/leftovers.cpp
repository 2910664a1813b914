// Tells what is left from what is alive, and removes it.
#include "io/leftovers.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <vector>

#include "io/fork.hpp"
#include "io/opened.hpp"

namespace orlop::inline v0::detail {

namespace {

constexpr int kOpenFile = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;

std::vector<std::string> entries(int directory, std::string_view prefix) {
  std::vector<std::string> names;
  // A second description: fdopendir takes its descriptor over and moves its position.
  const int listing = ::openat(directory, ".", kOpenDirectory);
  DIR* stream = listing < 0 ? nullptr : ::fdopendir(listing);
  if (stream == nullptr) {
    if (listing >= 0) ::close(listing);
    return names;
  }
  while (const dirent* entry = ::readdir(stream))
    if (std::string_view(entry->d_name).starts_with(prefix)) names.emplace_back(entry->d_name);
  ::closedir(stream);
  return names;
}

}  // namespace

std::string unique_name(std::string_view prefix) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::random_device source;
  std::string name = text(prefix, process_id(), '-');
  for (int word = 0; word < 2; ++word)
    for (unsigned bits = source(), digit = 0; digit < 8; ++digit, bits >>= 4) name += digits[bits & 15U];
  return name;
}

int claim(IoCalls& calls, int descriptor) {
  if (const int locked = uninterrupted([&] { return calls.probe_lock(descriptor); }); locked < 0)
    return locked;
  NodeStatus status;
  if (const int known = calls.stat_node(descriptor, status); known < 0) return known;
  return status.links == 0 ? -EWOULDBLOCK : 0;
}

void remove_contents(IoCalls& calls, int directory) {
  for (const std::string& name : entries(directory, ""))
    if (name != "." && name != "..") calls.unlink(directory, name.c_str(), false);
}

void sweep(IoCalls& calls, const std::string& folder, std::string_view prefix, NodeStatus::Kind kind) {
  const Opened parent(calls, IoCalls::kWorkingDirectory, folder, kOpenDirectory);
  if (parent.descriptor() < 0) return;
  const bool is_directory = kind == NodeStatus::Kind::kDirectory;
  for (const std::string& name : entries(parent.descriptor(), prefix)) {
    const Opened left(calls, parent.descriptor(), name, is_directory ? kOpenDirectory : kOpenFile);
    NodeStatus status;
    if (left.descriptor() < 0 || calls.stat_node(left.descriptor(), status) != 0) continue;
    if (status.kind != kind || status.owner != ::geteuid() || claim(calls, left.descriptor()) != 0) continue;
    if (is_directory) remove_contents(calls, left.descriptor());
    calls.unlink(parent.descriptor(), name.c_str(), is_directory);
  }
}

}  // namespace orlop::inline v0::detail
