// What tests of files share: a folder of their own, scripted faults, and what a call throws.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "orlop/base/error.hpp"
#include "orlop/io/io_script.hpp"
#include "orlop/io/session_directory.hpp"

namespace orlop::testing_support {

namespace fs = std::filesystem;

/// A fresh folder below `base` for all files of a test program.
class Place final : public testing::Environment {
 public:
  Place(fs::path base, std::string name) : base_(std::move(base)), name_(std::move(name)) {}

  void SetUp() override {
    std::string pattern = (base_ / ("orlop-" + name_ + "-test-XXXXXX")).string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
    setenv("ORLOP_TMPDIR", root.c_str(), 1);
    // So that its lock is in every count of descriptors.
    ASSERT_FALSE(detail::session_directory().empty());
  }
  void TearDown() override {
    fs::remove_all(root);
    unsetenv("ORLOP_TMPDIR");
  }
  inline static fs::path root;

 private:
  fs::path base_;
  std::string name_;
};

inline std::shared_ptr<detail::IoScript> script(detail::IoScriptOptions options) {
  return std::make_shared<detail::IoScript>(std::move(options));
}

/// Refuses the first lock, or loses what was made first to another process's sweep.
template <class Base>
class Contender final : public Base {
 public:
  explicit Contender(bool refuse) : refuse_(refuse) {}
  int probe_lock(int descriptor) override {
    return std::exchange(first_lock_, false) && refuse_ ? -EWOULDBLOCK : Base::probe_lock(descriptor);
  }
  int stat_node(int descriptor, detail::NodeStatus& status) override {
    const int result = Base::stat_node(descriptor, status);
    if (std::exchange(first_status_, false) && !refuse_) status.links = 0;
    return result;
  }

 private:
  bool refuse_;
  bool first_lock_ = true;
  bool first_status_ = true;
};

template <class E>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing thrown";
}

inline int code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const OSError& error) {
    return error.code();
  }
  return 0;
}

inline int open_descriptors() {
  return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

}  // namespace orlop::testing_support
