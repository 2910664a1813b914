// The retry loop, block reservation and the texts of I/O errors.
#include "orlop/io/transfer.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

namespace orlop::inline v0::detail {

namespace {

// generic_category's text is strerror's, without its shared buffer.
std::string reason(int code) { return text(std::generic_category().message(code), " (errno ", code, ")"); }

std::string_view advice(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "free space or raise the limit there";
    case EMFILE:
    case ENFILE:
      return "close other files or raise the limit of open files";
    case EACCES:
    case EPERM:
    case EROFS:
      return "give this user access";
    case ENOENT:
    case ENOTDIR:
      return "it must exist and must not be removed from outside";
    default:
      return "check the device and the file system";
  }
}

std::string ending(int code, std::string_view remedy) {
  return text(reason(code), "; ", advice(code), remedy.empty() ? "" : "; ", remedy);
}

bool refuses_before_changing(Index result) {
  return result == -ENOSPC || result == -EDQUOT || result == -EFBIG || result == -EINTR;
}

// `attempt(done)` moves bytes from position `done` on and returns the result of its one call.
template <class Attempt>
void transfer_fully(const IoTarget& target, std::string_view operation, Index bytes, Index offset,
                    Attempt attempt) {
  Index done = 0;
  while (done < bytes) {
    const Index result = attempt(done);
    if (result == -EINTR) continue;
    if (result < 0) raise_os_error(target, operation, static_cast<int>(-result), bytes, offset, done);
    if (result == 0)
      raise<RuntimeError>(target.what, operation, " at offset ", offset, " of '", target.path,
                          "' ended early: completed ", done, " of ", bytes,
                          " bytes; the storage must not be shortened from outside");
    done += result;
  }
}

void write_zeros(const IoTarget& target, Index offset, Index bytes) {
  const std::vector<std::byte> zeros(static_cast<std::size_t>(std::min<Index>(bytes, Index{1} << 20)));
  transfer_fully(target, "write", bytes, offset, [&](Index done) {
    const auto size =
        static_cast<std::size_t>(std::min<Index>(bytes - done, static_cast<Index>(zeros.size())));
    return target.calls.pwrite(target.descriptor, zeros.data(), size, offset + done);
  });
}

}  // namespace

void read_fully(const IoTarget& target, std::span<std::byte> data, Index offset, Index* completed) {
  transfer_fully(target, "read", static_cast<Index>(data.size()), offset, [&](Index done) {
    const auto rest = data.subspan(static_cast<std::size_t>(done));
    const Index result = target.calls.pread(target.descriptor, rest.data(),
                                            std::min(rest.size(), IoCalls::kTransferLimit), offset + done);
    if (completed != nullptr) *completed = done + std::max<Index>(result, 0);
    return result;
  });
}

void write_fully(const IoTarget& target, std::span<const std::byte> data, Index offset,
                 WriteProgress* progress) {
  transfer_fully(target, "write", static_cast<Index>(data.size()), offset, [&](Index done) {
    const auto rest = data.subspan(static_cast<std::size_t>(done));
    const Index result = target.calls.pwrite(target.descriptor, rest.data(),
                                             std::min(rest.size(), IoCalls::kTransferLimit), offset + done);
    if (progress != nullptr) {
      progress->completed = done + std::max<Index>(result, 0);
      progress->may_have_changed |= result != 0 && !refuses_before_changing(result);
    }
    return result;
  });
}

void copy_fully(const IoTarget& from, Index from_offset, const IoTarget& to, Index to_offset, Index bytes) {
  Index done = 0;
  while (done < bytes) {
    const Index result = to.calls.copy_range(from.descriptor, from_offset + done, to.descriptor,
                                             to_offset + done, static_cast<std::size_t>(bytes - done));
    if (result == -EINTR) continue;
    if (result <= 0) break;  // unsupported here, or a failure that the plain loop reports with its side
    done += result;
  }
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<Index>(bytes - done, Index{1} << 20)));
  while (done < bytes) {
    const auto part = std::span(buffer).first(
        static_cast<std::size_t>(std::min<Index>(bytes - done, static_cast<Index>(buffer.size()))));
    read_fully(from, part, from_offset + done);
    write_fully(to, part, to_offset + done);
    done += static_cast<Index>(part.size());
  }
}

void reserve_fully(const IoTarget& target, Index length, Index bytes) {
  if (bytes == 0) return;
  try {
    const int result = uninterrupted([&] { return target.calls.reserve(target.descriptor, length, bytes); });
    if (result == -EOPNOTSUPP || result == -ENOSYS)
      write_zeros(target, length, bytes);
    else if (result < 0)
      raise_os_error(target, "reserve", -result, bytes, length);
  } catch (...) {
    // Best effort: the carrier keeps its own count, and the bytes beyond it are never read.
    uninterrupted([&] { return target.calls.truncate(target.descriptor, length); });
    throw;
  }
}

void truncate_to(const IoTarget& target, Index length) {
  const int result = uninterrupted([&] { return target.calls.truncate(target.descriptor, length); });
  if (result < 0) raise_os_error(target, "truncate", -result, 0, length);
}

void raise_os_error(const IoTarget& target, std::string_view operation, int code, Index bytes, Index offset,
                    Index completed) {
  throw OSError(code, target.path,
                message(target.what, operation, " of ", bytes, " bytes at offset ", offset, " of '",
                        target.path, "' failed after ", completed, " bytes: ", ending(code, target.remedy)));
}

void raise_os_error(std::string_view what, std::string_view operation, int code, const std::string& path,
                    std::string_view remedy) {
  throw OSError(code, path, message(what, operation, " of '", path, "' failed: ", ending(code, remedy)));
}

}  // namespace orlop::inline v0::detail
