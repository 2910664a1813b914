// Files of the user's own: whole under their name or not there, with and without the system's files that have
// no name, and what is done about the files of saves that were killed.
#include "orlop/io/user_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <thread>

#include "files.hpp"

namespace orlop::inline v0::detail {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::code_of;
using testing_support::Contender;
using testing_support::message_of;
using testing_support::open_descriptors;
using testing_support::Place;

const auto* const kPlace =
    testing::AddGlobalTestEnvironment(new Place(fs::temp_directory_path(), "user-file"));

// A file system on which every file has a name, as most network ones.
class Named : public IoCalls {
 public:
  int open(int directory, const char* path, int flags, unsigned mode) override {
#ifdef O_TMPFILE
    if ((flags & O_TMPFILE) == O_TMPFILE) return -EOPNOTSUPP;
#endif
    return IoCalls::open(directory, path, flags, mode);
  }
};

enum class Files : std::uint8_t { kUnnamed, kNamed };

std::shared_ptr<IoCalls> calls_for(Files files) {
  return files == Files::kNamed ? std::make_shared<Named>() : std::make_shared<IoCalls>();
}

class OutputFiles : public testing::TestWithParam<Files> {
 protected:
  OutputFiles() : folder(Place::root / testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::create_directories(folder);
  }
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles() override { fs::remove_all(folder); }

  [[nodiscard]] std::string place(const std::string& name) const { return (folder / name).string(); }

  void put(const std::string& name, const std::string& content) const {
    std::ofstream(folder / name, std::ios::binary) << content;
  }

  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(folder / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder)) found.insert(entry.path().filename().string());
    return found;
  }

  // Saves until the sweep's turn has come again, which in a folder like this takes a moment.
  void save_until_swept(const std::string& name, const std::set<std::string>& wanted) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    do save(name, "x");
    while (names() != wanted && std::chrono::steady_clock::now() < deadline);
  }

  void save(const std::string& name, std::string_view text) const {
    OutputFile file("Test", place(name), static_cast<Index>(text.size()));
    file.write(std::as_bytes(std::span(text)), 0);
    file.commit();
  }

  fs::path folder;
  ScopedIoCalls scope{calls_for(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(, OutputFiles, testing::Values(Files::kUnnamed, Files::kNamed),
                         [](const auto& chosen) {
                           return std::string(chosen.param == Files::kNamed ? "Named" : "Unnamed");
                         });

TEST_P(OutputFiles, AppearWhole) {
  const int before = open_descriptors();
  put("old", "something longer than the new one");
  for (const char* name : {"old", "new"}) {
    OutputFile file("Test", place(name), 3);
    file.write(std::as_bytes(std::span("abc", 3)), 0);
    if (GetParam() == Files::kNamed)
      EXPECT_THAT(names(), ElementsAre(StartsWith(".orlop-saving-"), "old"));
    else
      EXPECT_THAT(names(), ElementsAre("old"));
    file.commit();
    EXPECT_EQ(content(name), "abc");
  }
  EXPECT_THAT(names(), ElementsAre("new", "old"));
  const mode_t mask = umask(0);
  umask(mask);
  struct stat found{};
  ASSERT_EQ(stat(place("new").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0666U & ~mask);
  EXPECT_EQ(found.st_nlink, 1U);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(OutputFiles, LeaveNothingWithoutCommit) {
  put("old", "old");
  {
    const OutputFile file("Test", place("old"), 3);
  }
  {
    const OutputFile file("Test", place("new"), 3);
  }
  EXPECT_THAT(names(), ElementsAre("old"));
  EXPECT_EQ(content("old"), "old");
}

TEST_P(OutputFiles, ReplaceALinkAndNotWhatItNames) {
  put("target", "target");
  fs::create_symlink("target", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  save("link", "new");
  save("dangling", "new");
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(content("target"), "target");
  EXPECT_THAT(names(), ElementsAre("dangling", "link", "target"));
}

TEST_P(OutputFiles, NeedNoFolderInTheirName) {
  const fs::path back = fs::current_path();
  fs::current_path(folder);
  OutputFile file("Test", "bare", 1);
  file.write(std::as_bytes(std::span("x", 1)), 0);
  file.commit();
  fs::current_path(back);
  EXPECT_THAT(names(), ElementsAre("bare"));
}

TEST_P(OutputFiles, RefuseWhatCannotBeReplaced) {
  fs::create_directory(folder / "directory");
  EXPECT_EQ(code_of([&] { save("directory", "x"); }), EISDIR);
  EXPECT_EQ(code_of([&] { save("none/x", "x"); }), ENOENT);
  ASSERT_EQ(mkfifo(place("pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<ValueError>([&] { save("pipe", "x"); }), HasSubstr("regular file"));
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  EXPECT_THAT(names(), ElementsAre("directory", "pipe"));
}

TEST_P(OutputFiles, WhatCannotBeLookedAtIsNotReplaced) {
  class Blind final : public IoCalls {
   public:
    int stat_path(const char*, NodeStatus&) override { return interrupted_++ == 0 ? -EINTR : -EIO; }
    int interrupted_ = 0;
  };
  put("old", "old");
  const int before = open_descriptors();
  {
    const ScopedIoCalls blind(std::make_shared<Blind>());
    EXPECT_EQ(code_of([&] { save("old", "new"); }), EIO);
  }
  EXPECT_EQ(content("old"), "old");
  EXPECT_THAT(names(), ElementsAre("old"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(OutputFiles, HaveANameFromTheStartWhereTheyCouldGetNoneLater) {
  class Unreachable final : public IoCalls {
   public:
    int access(const char*, int) override { return -EACCES; }
  };
  const int before = open_descriptors();
  {
    const ScopedIoCalls unreachable(std::make_shared<Unreachable>());
    OutputFile file("Test", place("new"), 1);
    EXPECT_THAT(names(), ElementsAre(StartsWith(".orlop-saving-")));
    file.write(std::as_bytes(std::span("x", 1)), 0);
    file.commit();
  }
  EXPECT_EQ(content("new"), "x");
  EXPECT_THAT(names(), ElementsAre("new"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(OutputFiles, WhatClosingReportsComesBeforeTheName) {
  class Closing final : public Named {
   public:
    explicit Closing(bool named) : named_(named) {}
    int open(int directory, const char* path, int flags, unsigned mode) override {
      return named_ ? Named::open(directory, path, flags, mode) : IoCalls::open(directory, path, flags, mode);
    }
    int close(int descriptor) override {
      IoCalls::close(descriptor);
      return -EDQUOT;
    }

   private:
    bool named_;
  };
  put("old", "old");
  const int before = open_descriptors();
  const ScopedIoCalls closing(std::make_shared<Closing>(GetParam() == Files::kNamed));
  for (const char* name : {"old", "new"}) EXPECT_EQ(code_of([&] { save(name, "new"); }), EDQUOT);
  EXPECT_THAT(names(), ElementsAre("old"));
  EXPECT_EQ(content("old"), "old");
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(OutputFiles, AFullTableOfDescriptorsIsACleanError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer looks at memory through a pipe, for which no descriptor is left";
#endif
  put("old", "old");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  {
    OutputFile file("Test", place("old"), 3);
    const int lowest_free = dup(STDERR_FILENO);
    close(lowest_free);
    rlimit none = limit;
    none.rlim_cur = static_cast<rlim_t>(lowest_free);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int code = code_of([&] { file.commit(); });
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(code, EMFILE);
  }
  EXPECT_THAT(names(), ElementsAre("old"));
  EXPECT_EQ(content("old"), "old");
}

TEST_P(OutputFiles, SweepWhatDeadProcessesLeftAndNothingElse) {
  put(".orlop-saving-1-stale", "stale");
  put(".orlop-saving-1-live", "live");
  put(".orlop-1-other", "other");
  put("orlop-saving-1", "other");
  put(".orlop-saving-1-foreign", "foreign");
  const bool can_give_away = chown(place(".orlop-saving-1-foreign").c_str(), 65534, 65534) == 0;
  fs::create_directory(folder / ".orlop-saving-1-directory");
  fs::create_symlink("orlop-saving-1", folder / ".orlop-saving-1-link");
  ASSERT_EQ(mkfifo(place(".orlop-saving-1-pipe").c_str(), 0600), 0);
  const int live = open(place(".orlop-saving-1-live").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(live, LOCK_EX | LOCK_NB), 0);
  std::set<std::string> kept{".orlop-saving-1-live",
                             ".orlop-1-other",
                             "orlop-saving-1",
                             ".orlop-saving-1-link",
                             ".orlop-saving-1-pipe",
                             ".orlop-saving-1-directory",
                             "saved"};
  if (can_give_away) kept.insert(".orlop-saving-1-foreign");
  save("saved", "x");
  EXPECT_EQ(names(), kept);
  close(live);
  kept.erase(".orlop-saving-1-live");
  save_until_swept("saved", kept);
  EXPECT_EQ(names(), kept);
}

TEST_P(OutputFiles, LookThroughAFullFolderNowAndThenOnly) {
  class Counting final : public Named {
   public:
    int sweeps = 0;
    int open(int directory, const char* path, int flags, unsigned mode) override {
#ifdef O_TMPFILE
      if ((flags & O_TMPFILE) == O_TMPFILE) return Named::open(directory, path, flags, mode);
#endif
      if ((flags & O_DIRECTORY) != 0) ++sweeps;
      return Named::open(directory, path, flags, mode);
    }
  };
  for (int i = 0; i < 3000; ++i) put("file-" + std::to_string(i), "");
  const auto counting = std::make_shared<Counting>();
  const ScopedIoCalls count(counting);
  for (int i = 0; i < 20; ++i) save("saved", "x");
  EXPECT_LE(counting->sweeps, 2);
}

// Runs `body` in a forked child that ends at once, without cleaning up; whether it returned true.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status == 0;
}

TEST_P(OutputFiles, OfAParentAreNotFinishedByItsChild) {
  put("old", "old");
  OutputFile file("Test", place("old"), 3);
  const auto before = names();
  EXPECT_TRUE(in_child([&] {
    const bool refused =
        message_of<RuntimeError>([&] { file.commit(); }).find("parent process") != std::string::npos;
    file.~OutputFile();
    return refused && names() == before;
  }));
  EXPECT_EQ(names(), before);
  file.write(std::as_bytes(std::span("new", 3)), 0);
  file.commit();
  EXPECT_EQ(content("old"), "new");
  EXPECT_THAT(names(), ElementsAre("old"));
}

TEST_P(OutputFiles, OfManyThreadsKeepOutOfEachOthersWay) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) save(i % 2 != 0 ? "shared" : "own" + std::to_string(thread), "text");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(names(), ElementsAre("own0", "own1", "own2", "own3", "shared"));
  EXPECT_EQ(content("shared"), "text");
}

TEST(OutputFile, TakesAnotherNameWhereASweepWasFaster) {
  for (const bool refuse : {false, true}) {
    const fs::path folder = Place::root / (refuse ? "refused" : "lost");
    fs::create_directory(folder);
    const ScopedIoCalls scope(std::make_shared<Contender<Named>>(refuse));
    OutputFile file("Test", (folder / "a").string(), 0);
    file.commit();
    EXPECT_TRUE(fs::exists(folder / "a"));
  }
}

}  // namespace
}  // namespace orlop::inline v0::detail
