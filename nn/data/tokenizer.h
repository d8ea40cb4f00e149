#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace brigade::data {

/// Text as numbers and back. Immutable: threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::int64_t vocabulary() const = 0;  ///< tokens are 0 to vocabulary() - 1
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// The bytes of one token.
  virtual std::string decode(std::int64_t token) const = 0;
};

/// A token is a byte.
class ByteTokenizer final : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::int64_t token) const override;
};

/// GPT-2's byte pair encoding (Sennrich et al., arXiv:1508.07909; Radford et al. 2019, section
/// 2.2), from the files vocab.json and merges.txt of a directory. UsageError: they are missing,
/// damaged, or do not fit each other. A special token in a text, such as <|endoftext|>, is read as
/// its letters.
std::unique_ptr<Tokenizer> load_bpe(const std::filesystem::path& directory);

}  // namespace brigade::data
