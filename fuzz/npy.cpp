// Any bytes as a .npy file.
#include "array_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  return orlop::fuzz::judged([&] {
    const orlop::fuzz::File file(data, bytes);
    const orlop::Tensor tensor = orlop::load_npy(file.path());
    orlop::save_npy(orlop::fuzz::saved_path(), tensor);
    orlop::fuzz::check_again(tensor, orlop::load_npy(orlop::fuzz::saved_path()), bytes);
  });
}
