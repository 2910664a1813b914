// Files of the user's own: read as they are, or replaced as a whole.
//
// Protocol. An InputFile owns nothing but its descriptor. An OutputFile owns a file in the folder of the name
// it will have, made with the process's umask; the bytes appear under that name whole, in commit(), and until
// then, or after any failure, whatever had the name keeps it. A symbolic link of that name is replaced, not
// followed. Where the system knows files without a name, the file has none until commit() and goes with its
// process; to replace another it then takes a name `.orlop-saving-<pid>-<random>` for the moment before the
// rename. Elsewhere it has such a name from the start. It is locked while it has that name: a crash frees the
// lock, and a later OutputFile in the same folder removes it (leftovers.hpp). Nothing is flushed: after a
// crash of the machine the new file may lack bytes. A fork's child cannot commit what its parent began.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "orlop/io/transfer.hpp"

namespace orlop::inline v0::detail {

/// An existing regular file, open for reading.
class ORLOP_API InputFile {
 public:
  /// OSError where it cannot be opened; ValueError for what is no regular file or has a NUL in its name.
  /// `what` names the call.
  InputFile(std::string_view what, std::string path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] Index bytes() const noexcept { return bytes_; }
  void read(std::span<std::byte> data, Index offset) const;
  [[nodiscard]] IoTarget target() const { return {*calls_, descriptor_, what_, path_}; }

 private:
  std::string_view what_;
  std::string path_;
  std::shared_ptr<IoCalls> calls_;
  int descriptor_ = -1;
  Index bytes_ = 0;
};

/// A file that appears under its name whole, or not at all.
class ORLOP_API OutputFile {
 public:
  /// Makes the file with blocks for `bytes` bytes, so that a full disk shows here. OSError;
  /// ValueError for a NUL in the name, and where a device, pipe or socket has it.
  OutputFile(std::string_view what, std::string path, Index bytes);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Without commit(): nothing stays.
  ~OutputFile();

  void write(std::span<const std::byte> data, Index offset);
  /// Gives the file its name.
  void commit();
  [[nodiscard]] IoTarget target() const { return {*calls_, descriptor_, what_, path_}; }

 private:
  void make_named(const std::string& folder);
  [[nodiscard]] bool try_link(const std::string& name);
  void discard() noexcept;

  std::string_view what_;
  std::string path_;
  std::string temporary_;  ///< the name for the time being, or empty
  std::shared_ptr<IoCalls> calls_;
  int descriptor_ = -1;
  int owner_;
};

}  // namespace orlop::inline v0::detail
