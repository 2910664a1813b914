// The io layer: whole transfers, the session directory, temporary files and their descriptors, under faults
// and forks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "files.hpp"
#include "orlop/io/io_calls.hpp"
#include "orlop/io/io_script.hpp"
#include "orlop/io/session_directory.hpp"
#include "orlop/io/temporary_file.hpp"
#include "orlop/io/transfer.hpp"

namespace orlop::inline v0::detail {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_support::code_of;
using testing_support::Contender;
using testing_support::message_of;
using testing_support::open_descriptors;
using testing_support::Place;
using testing_support::script;
using Kind = IoStep::Kind;

const auto* const kPlace = testing::AddGlobalTestEnvironment(new Place(fs::temp_directory_path(), "io"));

// Runs `body` in a forked child; what waitpid says about its end. A false or throwing body exits with 1.
int in_child(const std::function<bool()>& body, bool normal_exit = true) {
  std::fflush(nullptr);  // or the child prints it again
  const pid_t child = fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    if (normal_exit) std::exit(good ? 0 : 1);
    _exit(good ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

std::vector<std::string> session_directories(const fs::path& base) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(base))
    if (entry.path().filename().string().starts_with(".orlop-filebacked-"))
      names.push_back(entry.path().string());
  return names;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string read_text(const TemporaryFile& file, std::size_t size, Index offset = 0) {
  std::string text(size, '\0');
  file.read(std::as_writable_bytes(std::span(text)), offset);
  return text;
}

TEST(IoCalls, EachIsItsSystemCallOrMinusErrno) {
  IoCalls calls;
  const std::string from = (Place::root / "calls").string();
  const std::string to = from + "-renamed";
  const int file = calls.open(IoCalls::kWorkingDirectory, from.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  EXPECT_EQ(calls.open(IoCalls::kWorkingDirectory, from.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), -EEXIST);
  EXPECT_EQ(calls.truncate(file, 10), 0);
  NodeStatus status;
  EXPECT_EQ(calls.stat_node(file, status), 0);
  EXPECT_EQ(status.kind, NodeStatus::Kind::kRegular);
  EXPECT_EQ(status.bytes, 10);
  EXPECT_EQ(status.links, 1U);
  EXPECT_EQ(status.owner, geteuid());
  DeviceGeometry geometry;
  EXPECT_EQ(calls.geometry(file, geometry), -ENOTTY);
  EXPECT_EQ(calls.rename(from.c_str(), to.c_str()), 0);
  EXPECT_EQ(calls.unlink(IoCalls::kWorkingDirectory, from.c_str(), false), -ENOENT);
  EXPECT_EQ(calls.unlink(IoCalls::kWorkingDirectory, to.c_str(), false), 0);
  EXPECT_EQ(calls.close(file), 0);
  EXPECT_EQ(calls.close(file), -EBADF);
}

TEST(IoScript, CanPresentAFileAsADevice) {
  IoScript device({.close_errno = EIO});
  device.present_as_device({.capacity_bytes = 8192, .logical_block_size = 512, .physical_block_size = 4096});
  const std::string path = (Place::root / "device").string();
  const int file = device.open(IoCalls::kWorkingDirectory, path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  NodeStatus status;
  DeviceGeometry geometry;
  EXPECT_EQ(device.stat_node(file, status), 0);
  EXPECT_EQ(status.kind, NodeStatus::Kind::kBlockDevice);
  EXPECT_EQ(device.geometry(file, geometry), 0);
  EXPECT_EQ(geometry.capacity_bytes, 8192U);
  EXPECT_EQ(geometry.physical_block_size, 4096U);
  EXPECT_EQ(device.close(file), -EIO);
  EXPECT_EQ(device.close(file), -EIO);
  EXPECT_EQ(device.counts().closes, 2);
  EXPECT_EQ(device.counts().opens, 1);
}

TEST(Transfer, RepeatsInterruptedAndContinuesShortCalls) {
  TemporaryFile file("Test");
  file.grow(0, 8);
  const auto faults = script({.read = {{Kind::kShort, 2}, {Kind::kInterrupt}},
                              .write = {{Kind::kInterrupt}, {Kind::kShort, 3}, {Kind::kShort, 1}}});
  const ScopedIoCalls scope(faults);
  file.write(bytes_of("abcdefgh"), 0);
  EXPECT_EQ(faults->counts().writes, 4);
  EXPECT_EQ(faults->counts().writes_left, 0);
  EXPECT_EQ(read_text(file, 8), "abcdefgh");
  EXPECT_EQ(faults->counts().reads, 3);
}

TEST(Transfer, SaysHowFarItCameWhenTheFileEnds) {
  TemporaryFile file("Test");
  file.grow(0, 8);
  const ScopedIoCalls scope(script({.read = {}, .write = {{Kind::kShort, 5}, {Kind::kZero}}}));
  WriteProgress progress;
  EXPECT_THAT(message_of<RuntimeError>([&] { file.write(bytes_of("abcdefgh"), 0, &progress); }),
              HasSubstr("completed 5 of 8 bytes"));
  EXPECT_EQ(progress.completed, 5);
  EXPECT_TRUE(progress.may_have_changed);
  fs::resize_file(file.path(), 6);
  EXPECT_THAT(message_of<RuntimeError>([&] { read_text(file, 8); }), HasSubstr("completed 6 of 8 bytes"));
}

TEST(Transfer, ReportsOperationPathBytesOffsetAndErrno) {
  TemporaryFile file("Test");
  file.grow(0, 16);
  const ScopedIoCalls scope(script({.write = {{Kind::kShort, 3}, {Kind::kFail, 0, EIO}}}));
  const auto write = [&] { file.write(bytes_of("abcdefgh"), 4); };
  try {
    write();
    FAIL() << "the write passed";
  } catch (const OSError& error) {
    EXPECT_EQ(error.code(), EIO);
    EXPECT_EQ(error.path(), file.path());
    const std::string what = error.what();
    for (const std::string& part :
         {std::string("write of 8 bytes"), std::string("offset 4"), std::string("after 3 bytes"),
          std::string(std::strerror(EIO)), file.path()})
      EXPECT_THAT(what, HasSubstr(part));
  }
}

TEST(Transfer, KnowsWhenNoByteCanHaveChanged) {
  TemporaryFile file("Test");
  file.grow(0, 8);
  const auto changed = [&](std::vector<IoStep> steps) {
    const ScopedIoCalls scope(script({.write = std::move(steps)}));
    WriteProgress progress;
    EXPECT_ANY_THROW(file.write(bytes_of("abcdefgh"), 0, &progress));
    return progress.may_have_changed;
  };
  for (const int code : {ENOSPC, EDQUOT, EFBIG}) EXPECT_FALSE(changed({{Kind::kFail, 0, code}}));
  EXPECT_FALSE(changed({{Kind::kInterrupt}, {Kind::kZero}}));
  EXPECT_TRUE(changed({{Kind::kFail, 0, EIO}}));
  EXPECT_TRUE(changed({{Kind::kShort, 1}, {Kind::kFail, 0, ENOSPC}}));
}

// Records what is asked for and moves nothing.
class Recorder final : public IoCalls {
 public:
  Index pwrite(int, const void*, std::size_t bytes, Index offset) override {
    requests.emplace_back(static_cast<Index>(bytes), offset);
    return static_cast<Index>(bytes);
  }
  Index pread(int, void*, std::size_t bytes, Index offset) override {
    return pwrite(0, nullptr, bytes, offset);
  }
  std::vector<std::pair<Index, Index>> requests;
};

TEST(Transfer, AsksForAtMostTheKernelsLimitPerCall) {
  constexpr std::size_t size = std::size_t{5} << 30;
  void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  constexpr Index limit = 2'147'479'552;
  const std::vector<std::pair<Index, Index>> expected = {
      {limit, 7}, {limit, 7 + limit}, {static_cast<Index>(size) - 2 * limit, 7 + 2 * limit}};
  const std::string path = "none";
  Recorder writes;
  write_fully({writes, -1, "Test", path}, {static_cast<std::byte*>(memory), size}, 7);
  EXPECT_EQ(writes.requests, expected);
  Recorder reads;
  read_fully({reads, -1, "Test", path}, {static_cast<std::byte*>(memory), size}, 7);
  EXPECT_EQ(reads.requests, expected);
  munmap(memory, size);
}

TEST(Reserve, WritesZerosWhereTheFileSystemCannot) {
  TemporaryFile file("Test");
  const auto faults = script({.reserve = {{Kind::kInterrupt}, {Kind::kFail, 0, EOPNOTSUPP}}});
  const ScopedIoCalls scope(faults);
  file.grow(0, 3'000'000);
  EXPECT_EQ(fs::file_size(file.path()), 3'000'000U);
  EXPECT_EQ(faults->counts().writes, 3);
  EXPECT_EQ(read_text(file, 4, 2'999'996), std::string(4, '\0'));
}

TEST(Reserve, RestoresTheLengthWhenTheDiskIsFull) {
  TemporaryFile file("Test");
  file.grow(0, 4);
  file.write(bytes_of("abcd"), 0);
  for (const int code : {ENOSPC, EDQUOT, EFBIG}) {
    const ScopedIoCalls scope(script({.reserve = {{Kind::kFail, 0, code}}}));
    EXPECT_EQ(code_of([&] { file.grow(4, 4096); }), code);
    EXPECT_EQ(fs::file_size(file.path()), 4U);
  }
  const ScopedIoCalls scope(script(
      {.write = {{Kind::kShort, 100}, {Kind::kFail, 0, ENOSPC}}, .reserve = {{Kind::kFail, 0, EOPNOTSUPP}}}));
  EXPECT_EQ(code_of([&] { file.grow(4, 4096); }), ENOSPC);
  EXPECT_EQ(fs::file_size(file.path()), 4U);
  EXPECT_EQ(read_text(file, 4), "abcd");
}

TEST(Reserve, TheProcessLimitIsAnErrorAndNoSignal) {
  EXPECT_EQ(in_child([] {
              const rlimit limit{4096, 4096};
              setrlimit(RLIMIT_FSIZE, &limit);
              TemporaryFile file("Test");
              return code_of([&] { file.grow(0, 8192); }) == EFBIG && fs::file_size(file.path()) == 0;
            }),
            0);
}

TEST(Reserve, GrowthDropsWhatLayBeyondTheLength) {
  TemporaryFile file("Test");
  file.grow(0, 8);
  file.write(bytes_of("abcdefgh"), 0);
  file.grow(2, 6);
  EXPECT_EQ(read_text(file, 8), std::string("ab\0\0\0\0\0\0", 8));
  file.shrink(3);
  EXPECT_EQ(fs::file_size(file.path()), 3U);
}

TEST(TemporaryFile, RefusesNamesThatArePaths) {
  for (const std::string& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                                  std::string("/a"), std::string("a\0b", 3)})
    EXPECT_THAT(message_of<ValueError>([&] { TemporaryFile file("Test", name); }),
                HasSubstr("bare file name"));
}

TEST(TemporaryFile, NeverReplacesAFile) {
  TemporaryFile first("Test", "same");
  first.create();
  first.grow(0, 4);
  TemporaryFile second("Test", "same");
  EXPECT_EQ(code_of([&] { second.create(); }), EEXIST);
  second.remove();
  EXPECT_EQ(fs::file_size(first.path()), 4U);
  EXPECT_EQ(fs::path(first.path()).filename(), "same");
}

TEST(TemporaryFile, ChoosesAnotherNameWhereAGeneratedOneIsTaken) {
  TemporaryFile probe("Test");
  probe.create();
  const std::string last = fs::path(probe.path()).filename().string();
  const std::string taken = "storage-" + std::to_string(std::stoi(last.substr(8)) + 1);
  TemporaryFile chosen("Test", taken);
  chosen.create();
  TemporaryFile next("Test");
  next.create();
  EXPECT_NE(next.path(), chosen.path());
}

TEST(TemporaryFile, IsMadeWhenFirstNeededAndGoesWithItsObject) {
  std::string path;
  {
    TemporaryFile file("Test");
    EXPECT_FALSE(file.is_created());
    EXPECT_THROW(read_text(file, 4), RuntimeError);
    file.create();
    file.create();
    path = file.path();
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFile, RemovalToleratesAMissingFileAndCanBeRetried) {
  TemporaryFile file("Test");
  file.grow(0, 4);
  {
    const ScopedIoCalls scope(script({.fail_at = 1, .fail_errno = EBUSY}));
    EXPECT_EQ(code_of([&] { file.remove(); }), EBUSY);
  }
  EXPECT_EQ(read_text(file, 4), std::string(4, '\0'));
  fs::remove(file.path());
  file.remove();
  file.remove();
  EXPECT_THAT(message_of<RuntimeError>([&] { read_text(file, 4); }), HasSubstr("released"));
}

TEST(TemporaryFile, AMissingFileIsAnErrorWhenReopened) {
  TemporaryFile file("Test");
  file.grow(0, 4);
  fs::remove(file.path());
  std::vector<std::unique_ptr<TemporaryFile>> others;  // push it out of the cache
  for (int i = 0; i < TemporaryFile::kOpenLimit; ++i)
    others.emplace_back(std::make_unique<TemporaryFile>("Test"))->create();
  EXPECT_EQ(code_of([&] { read_text(file, 4); }), ENOENT);
}

TEST(DescriptorCache, KeepsAtMostSixtyFourFilesOpen) {
  const int before = open_descriptors() - open_temporary_files();
  std::vector<std::unique_ptr<TemporaryFile>> files;
  for (int i = 0; i < 300; ++i) {
    TemporaryFile& file = *files.emplace_back(std::make_unique<TemporaryFile>("Test"));
    file.grow(0, 8);
    file.write(std::as_bytes(std::span(&i, 1)), 0);
    ASSERT_LE(open_temporary_files(), 64);
  }
  for (int i = 299; i >= 0; i -= 7) {
    int value = 0;
    files[static_cast<std::size_t>(i)]->read(std::as_writable_bytes(std::span(&value, 1)), 0);
    ASSERT_EQ(value, i);
    ASSERT_LE(open_temporary_files(), 64);
  }
  EXPECT_EQ(open_descriptors(), before + 64);
  files.clear();
  EXPECT_EQ(open_temporary_files(), 0);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorCache, GivesItsIdleDescriptorsBackWhenTheProcessRunsOut) {
  EXPECT_EQ(in_child([] {
              std::vector<std::unique_ptr<TemporaryFile>> files;
              for (int i = 0; i < 40; ++i)
                files.emplace_back(std::make_unique<TemporaryFile>("Test"))->grow(0, 4);
              const rlimit limit{20, 20};
              setrlimit(RLIMIT_NOFILE, &limit);
              int value = 0;
              for (const auto& file : files) file->read(std::as_writable_bytes(std::span(&value, 1)), 0);
              TemporaryFile fresh("Test");
              fresh.grow(0, 4);
              return open_temporary_files() <= 41;
            }),
            0);
}

TEST(DescriptorCache, ServesManyThreads) {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  for (int i = 0; i < 100; ++i) {
    files.emplace_back(std::make_unique<TemporaryFile>("Test"))->grow(0, 4);
    files.back()->write(std::as_bytes(std::span(&i, 1)), 0);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, state = seed]() mutable {
      for (int round = 0; round < 3000; ++round) {
        state = state * 1664525U + 1013904223U;
        const int index = static_cast<int>((state >> 8) % 100);
        int value = -1;
        files[static_cast<std::size_t>(index)]->read(std::as_writable_bytes(std::span(&value, 1)), 0);
        if (value != index) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(open_temporary_files(), 64);
}

TEST(DescriptorCache, AFileRemovedDuringATransferIsClosedAfterIt) {
  TemporaryFile file("Test");
  file.grow(0, 4);
  const int before = open_descriptors();
  const auto gate = std::make_shared<Gate>();
  {
    const ScopedIoCalls scope(script({.read = {{Kind::kHold, 0, 0, gate}}}));
    std::thread reader([&] { EXPECT_EQ(read_text(file, 4), std::string(4, '\0')); });
    EXPECT_TRUE(gate->wait_entered(60));
    file.remove();
    EXPECT_EQ(open_descriptors(), before);
    gate->open();
    reader.join();
  }
  EXPECT_EQ(open_descriptors(), before - 1);
}

TEST(SessionDirectory, IsPrivateAlsoUnderAnOpenUmask) {
  EXPECT_EQ(in_child([] {
              umask(0);
              TemporaryFile file("Test");
              file.create();
              struct stat made{};
              if (stat(session_directory().c_str(), &made) != 0 || (made.st_mode & 07777) != 0700)
                return false;
              return stat(file.path().c_str(), &made) == 0 && (made.st_mode & 07777) == 0600;
            }),
            0);
}

TEST(SessionDirectory, FollowsTheEnvironment) {
  const auto base_with = [](std::vector<std::pair<const char*, std::string>> variables) {
    const fs::path answer = Place::root / "answer";
    const int status = in_child([&] {
      for (const char* name : {"ORLOP_TMPDIR", "TMPDIR", "TEMP", "TMP"}) unsetenv(name);
      for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
      fs::current_path(Place::root);
      std::ofstream(answer) << fs::path(session_directory()).parent_path().string();
      return fs::path(session_directory())
          .filename()
          .string()
          .starts_with(".orlop-filebacked-" + std::to_string(getpid()) + "-");
    });
    EXPECT_EQ(status, 0);
    std::string base;
    std::getline(std::ifstream(answer), base);
    return base;
  };
  const std::string a = (Place::root / "a").string();
  const std::string b = (Place::root / "b").string();
  fs::create_directory(a);
  fs::create_directory(b);
  EXPECT_EQ(base_with({}), "/var/tmp");
  EXPECT_EQ(base_with({{"TMP", a}}), a);
  EXPECT_EQ(base_with({{"TMP", a}, {"TEMP", b}}), b);
  EXPECT_EQ(base_with({{"TMPDIR", a}, {"TEMP", b}}), a);
  EXPECT_EQ(base_with({{"ORLOP_TMPDIR", b}, {"TMPDIR", a}}), b);
  EXPECT_EQ(base_with({{"ORLOP_TMPDIR", ""}, {"TMPDIR", a}}), a);
  EXPECT_EQ(base_with({{"ORLOP_TMPDIR", "a"}}), a);
  EXPECT_TRUE(session_directories(a).empty());
  EXPECT_TRUE(session_directories(b).empty());
}

TEST(SessionDirectory, AMissingPlaceIsAnErrorThatNamesIt) {
  EXPECT_EQ(in_child([] {
              setenv("ORLOP_TMPDIR", "/nonexistent/place", 1);
              TemporaryFile file("Test");
              if (code_of([&] { file.create(); }) != ENOENT) return false;
              setenv("ORLOP_TMPDIR", Place::root.c_str(), 1);
              file.create();
              return true;
            }),
            0);
}

TEST(SessionDirectory, GoesOnNormalExitWithEverythingInIt) {
  const auto before = session_directories(Place::root);
  EXPECT_EQ(in_child([] {
              std::make_unique<TemporaryFile>("Test").release()->grow(0, 4);  // never removed by its object
              return true;
            }),
            0);
  EXPECT_EQ(session_directories(Place::root), before);
}

TEST(SessionDirectory, TheNextProcessRemovesWhatAKilledOneLeft) {
  const auto before = session_directories(Place::root);
  const int status = in_child([] {
    TemporaryFile file("Test");
    file.grow(0, 4096);
    kill(getpid(), SIGKILL);
    return false;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(session_directories(Place::root).size(), before.size() + 1);
  EXPECT_EQ(in_child([] { return !session_directory().empty(); }), 0);
  EXPECT_EQ(session_directories(Place::root), before);
}

TEST(SessionDirectory, SweepingKeepsLiveForeignAndLinkedDirectories) {
  const fs::path base = Place::root / "sweep";
  fs::create_directory(base);
  const auto make = [&](const char* name) {
    const fs::path path = base / name;
    fs::create_directory(path);
    std::ofstream(path / "file") << "bytes";
    return path;
  };
  const fs::path stale = make(".orlop-filebacked-1-stale");
  const fs::path live = make(".orlop-filebacked-1-live");
  const fs::path other = make("other");
  const fs::path nested = make(".orlop-filebacked-1-nested");
  fs::create_directory(nested / "directory");
  fs::create_directory_symlink(other, base / ".orlop-filebacked-1-link");
  std::ofstream(base / ".orlop-filebacked-1-regular") << "bytes";
  const fs::path foreign = make(".orlop-filebacked-1-foreign");
  const bool can_give_away = chown(foreign.c_str(), 65534, 65534) == 0;
  const int lock = open(live.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(in_child([&] {
              setenv("ORLOP_TMPDIR", base.c_str(), 1);
              return !session_directory().empty();
            }),
            0);
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(live / "file"));
  EXPECT_TRUE(fs::exists(other / "file"));
  EXPECT_TRUE(fs::exists(nested / "directory"));
  EXPECT_TRUE(fs::is_symlink(base / ".orlop-filebacked-1-link"));
  EXPECT_TRUE(fs::exists(base / ".orlop-filebacked-1-regular"));
  EXPECT_EQ(fs::exists(foreign / "file"), can_give_away);
  close(lock);
}

TEST(SessionDirectory, TakesAnotherNameWhenASweepWasFaster) {
  for (const bool refuse : {false, true})
    EXPECT_EQ(in_child([&] {
                const ScopedIoCalls scope(std::make_shared<Contender<IoCalls>>(refuse));
                TemporaryFile file("Test");
                file.create();
                return fs::exists(file.path());
              }),
              0);
}

TEST(Fork, AChildReadsButNeitherWritesNorDeletes) {
  TemporaryFile file("Test");
  TemporaryFile unmade("Test");
  file.grow(0, 4);
  file.write(bytes_of("abcd"), 0);
  const std::string parent = session_directory();
  EXPECT_EQ(
      in_child([&] {
        if (!file.is_inherited() || read_text(file, 4) != "abcd") return false;
        for (const std::function<void()>& change :
             {std::function<void()>([&] { file.write(bytes_of("x"), 0); }),
              {[&] { file.grow(4, 4); }},
              {[&] { file.shrink(0); }},
              {[&] { unmade.create(); }}})
          if (message_of<RuntimeError>(change).find("belongs to the parent process") == std::string::npos)
            return false;
        file.remove();
        TemporaryFile own("Test");
        own.grow(0, 4);
        return !own.is_inherited() && session_directory() != parent;
      }),
      0);
  EXPECT_EQ(read_text(file, 4), "abcd");
  EXPECT_TRUE(fs::exists(file.path()));
}

TEST(Fork, AChildReadsInheritedFilesThatItsParentHasClosed) {
  std::vector<std::unique_ptr<TemporaryFile>> files;
  for (int i = 0; i < 100; ++i) {
    files.emplace_back(std::make_unique<TemporaryFile>("Test"))->grow(0, 4);
    files.back()->write(std::as_bytes(std::span(&i, 1)), 0);
  }
  EXPECT_EQ(in_child([&] {
              for (int i = 0; i < 100; ++i) {
                int value = -1;
                files[static_cast<std::size_t>(i)]->read(std::as_writable_bytes(std::span(&value, 1)), 0);
                if (value != i) return false;
              }
              return open_temporary_files() <= 64;
            }),
            0);
}

TEST(Fork, AChildThatLivesOnDoesNotKeepItsDeadParentsFiles) {
  const fs::path base = Place::root / "orphan";
  fs::create_directory(base);
  int wake[2];
  int ready[2];
  ASSERT_EQ(pipe(wake), 0);
  ASSERT_EQ(pipe(ready), 0);
  const int status = in_child([&] {
    setenv("ORLOP_TMPDIR", base.c_str(), 1);
    TemporaryFile file("Test");
    file.grow(0, 4);
    char byte = 0;
    if (fork() == 0) {
      close(wake[1]);
      if (write(ready[1], &byte, 1) == 1)
        static_cast<void>(!read(wake[0], &byte, 1));  // until the test closes its end
      _exit(0);
    }
    static_cast<void>(!read(ready[0], &byte, 1));
    kill(getpid(), SIGKILL);
    return false;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(session_directories(base).size(), 1U);
  EXPECT_EQ(in_child([&] {
              setenv("ORLOP_TMPDIR", base.c_str(), 1);
              return !session_directory().empty();
            }),
            0);
  EXPECT_TRUE(session_directories(base).empty());
  for (const int end : {wake[0], wake[1], ready[0], ready[1]}) close(end);
}

TEST(Fork, WorksWhileOtherThreadsUseTheLayer) {
  TemporaryFile file("Test");
  file.grow(0, 4);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) read_text(file, 4);
  });
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(in_child([&] {
                alarm(60);
                return read_text(file, 4) == std::string(4, '\0') && !session_directory().empty();
              }),
              0);
  stop = true;
  reader.join();
}

// SQLite's loop: fail the n-th call for n = 1, 2, 3 … until a run passes; after each failure everything
// works.
TEST(Faults, EveryCallOfAFilesLifeMayFail) {
  for (const int code : {EIO, ENOSPC, EMFILE}) {
    int failures = 0;
    for (Index n = 1;; ++n) {
      ASSERT_LT(n, 100);
      const int before = open_descriptors();
      std::string path;
      bool clean = true;
      const auto faults = script({.fail_at = n, .fail_errno = code});
      {
        TemporaryFile file("Test");
        {
          const ScopedIoCalls scope(faults);
          try {
            file.create();
            file.grow(0, 8);
            file.write(bytes_of("abcdefgh"), 0);
            read_text(file, 8);
            file.shrink(4);
            file.remove();
          } catch (const OSError& error) {
            EXPECT_EQ(error.code(), code);
            clean = false;
            ++failures;
          }
        }
        path = file.path();
        if (!clean) {
          file.grow(0, 8);
          file.write(bytes_of("stuvwxyz"), 0);
          EXPECT_EQ(read_text(file, 8), "stuvwxyz");
        }
      }
      EXPECT_FALSE(fs::exists(path));
      EXPECT_EQ(open_descriptors(), before);
      if (clean && faults->counts().calls < n) break;
    }
    EXPECT_GE(failures, 6);
  }
}

TEST(Faults, EveryCallOfTheSessionDirectoryMayFail) {
  EXPECT_EQ(in_child([] {
              const fs::path base = Place::root / "faults";
              fs::create_directory(base);
              fs::create_directory(base / ".orlop-filebacked-1-stale");
              setenv("ORLOP_TMPDIR", base.c_str(), 1);
              int failures = 0;
              for (Index n = 1; n < 100; ++n) {
                const int before = open_descriptors();
                const ScopedIoCalls scope(script({.fail_at = n, .fail_errno = EIO}));
                try {
                  static_cast<void>(session_directory());
                  return failures == 3;  // open, flock, fstat; the sweep's failures are ignored
                } catch (const OSError& error) {
                  if (error.code() != EIO || open_descriptors() != before) return false;
                  if (session_directories(base).size() != 1) return false;
                  ++failures;
                }
              }
              return false;
            }),
            0);
}

}  // namespace
}  // namespace orlop::inline v0::detail
