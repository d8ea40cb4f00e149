// What a directory of Hugging Face's brings: the first byte says whether the rest is config.json,
// vocab.json or, up to a zero, merges.txt beside a good vocab.json, and then a text.
#include "nn/gpt2_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "nn/data/tokenizer.h"
#include "tests/fuzz/target.h"
#include "tests/support/gpt2_vocabulary.h"
#include "tests/support/temporary_directory.h"

namespace {

using namespace brigade;

/// Directories in which one file is the one in memory.
struct Directories {
  TemporaryDirectory config, vocabulary, merges;

  Directories() {
    const std::string any = test::file_of({});
    std::filesystem::create_symlink(any, config / "config.json");
    std::filesystem::create_symlink(any, vocabulary / "vocab.json");
    std::ofstream(vocabulary / "merges.txt") << "";
    std::filesystem::create_symlink(any, merges / "merges.txt");
    std::ofstream(merges / "vocab.json") << small_vocabulary();
  }
};

void read_merges(const Directories& files, std::span<const std::uint8_t> bytes) {
  const auto end = std::ranges::find(bytes, std::uint8_t{0});
  test::file_of({bytes.begin(), end});
  const auto tokenizer = data::load_bpe(files.merges.path());
  const std::string text(end, bytes.end());
  std::string again;
  for (const std::int32_t token : tokenizer->encode(text)) {
    again += tokenizer->decode(token);
  }
  test::require(again == text, "tokens give back their text");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Directories files;
  std::span<const std::uint8_t> bytes(data, size);
  const int kind = test::take_byte(bytes) % 3;
  try {
    if (kind == 2) {
      read_merges(files, bytes);
      return 0;
    }
    test::file_of(bytes);
    if (kind == 1) {
      data::load_bpe(files.vocabulary.path());
      return 0;
    }
    const nn::GPTOptions options = nn::load_gpt2_options(files.config.path(), {});
    test::require(options.layers > 0 && options.vocabulary > 0, "sizes above 0");
  } catch (const UsageError&) {
  }
  return 0;
}
