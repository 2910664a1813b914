// What tests of files share: a folder of their own, scripted faults, and what a call throws.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

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
