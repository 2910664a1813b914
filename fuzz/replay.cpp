// Runs a fuzzer where there is no libFuzzer: on each file of a corpus as it is, and on a fixed number of
// damaged copies, the same in every run.
//   fuzz_NAME CORPUS RUNS [trace]
// trace prints the number of each run, to see which one ended the program.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "array_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace {

std::vector<std::string> read_corpus(const char* folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> files;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

/// One seed for all machines: the engine's numbers are fixed by the language, those of distributions are not.
class Damage {
 public:
  explicit Damage(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string file = corpus_[below(corpus_.size())];
    for (std::size_t left = 1 + below(4); left > 0; --left) step(file);
    return file;
  }

 private:
  void step(std::string& file) {
    // What numbers, lists and texts of headers are made of, and numbers at the ends of their types.
    constexpr std::array<std::string_view, 20> pieces{"0",
                                                      "-1",
                                                      "[",
                                                      "]",
                                                      "{",
                                                      "}",
                                                      "(",
                                                      ")",
                                                      "\"",
                                                      ",",
                                                      ":",
                                                      "\\",
                                                      "\\u0000",
                                                      "\xff",
                                                      "e9",
                                                      "2147483648",
                                                      "9223372036854775807",
                                                      "18446744073709551616",
                                                      "'",
                                                      "<f4"};
    const std::size_t at = below(file.size() + 1);
    const std::size_t length = below(9);
    switch (below(6)) {
      case 0:
        if (at < file.size()) file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
        return;
      case 1:
        if (at < file.size()) file[at] = static_cast<char>(below(256));
        return;
      case 2:
        file.insert(at, pieces[below(pieces.size())]);
        return;
      case 3:
        file.erase(at, length);
        return;
      case 4:
        file.insert(at, file.substr(below(file.size() + 1), length));
        return;
      default: {  // the end of another file, or nothing
        const std::string& other = corpus_[below(corpus_.size())];
        file.replace(at, std::string::npos, other, below(other.size() + 1));
      }
    }
  }

  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{1};
};

void run(const std::string& file) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> corpus = count < 3 ? std::vector<std::string>() : read_corpus(arguments[1]);
  if (corpus.empty()) {
    std::cerr << "usage: " << arguments[0] << " CORPUS RUNS [trace]\n";
    return 2;
  }
  for (const std::string& file : corpus) run(file);
  Damage damage(corpus);
  const long runs = std::atol(arguments[2]);
  for (long i = 0; i < runs; ++i) {
    if (count > 3) std::cerr << i << '\n';
    run(damage.next());
  }
  std::filesystem::remove(orlop::fuzz::saved_path());
  std::cout << corpus.size() << " files and " << runs << " damaged ones\n";
  return 0;
}
