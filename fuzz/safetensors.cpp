// Any bytes as a safetensors file.
#include "array_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  return orlop::fuzz::judged([&] {
    const orlop::fuzz::File file(data, bytes);
    const orlop::FileMetadata metadata = orlop::safetensors_metadata(file.path());
    const orlop::NamedTensors tensors = orlop::load_safetensors(file.path());
    orlop::save_safetensors(orlop::fuzz::saved_path(), tensors, {.metadata = metadata, .progress = {}});
    orlop::fuzz::File::require(orlop::safetensors_metadata(orlop::fuzz::saved_path()) == metadata);
    for (const auto& [name, tensor] : tensors) {
      const std::string names[] = {name};
      const orlop::NamedTensors again = orlop::load_safetensors(orlop::fuzz::saved_path(), names);
      orlop::fuzz::check_again(tensor, again.front().second, bytes);
    }
  });
}
