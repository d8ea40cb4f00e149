#include "nn/data/text.h"

#include <xxhash.h>

#include <algorithm>

#include "core/error.h"
#include "core/io/read_file.h"

namespace brigade::data {
namespace {

namespace fs = std::filesystem;

/// Hidden ones, what a build makes, and what runs of training write.
bool is_skipped(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code absent;
  return name.starts_with('.') || name == "build" || name == "runs" ||
         fs::exists(path / "metrics.jsonl", absent);
}

std::vector<fs::path> files_below(const fs::path& directory) try {
  std::vector<fs::path> files;
  for (auto at = fs::recursive_directory_iterator(directory); at != fs::end(at); ++at) {
    std::error_code dangling;
    if (is_skipped(at->path())) {
      at.disable_recursion_pending();
    } else if (at->is_regular_file(dangling)) {
      files.push_back(at->path());
    }
  }
  std::ranges::sort(files);
  return files;
} catch (const fs::filesystem_error& error) {
  throw UsageError(fmt::format("text: cannot read all directories below {}: {}", directory.string(),
                               error.code().message()));
}

std::string text_of_file(const fs::path& path) {
  std::string text = read_text(path);
  return text.find('\0') == std::string::npos ? text : std::string();
}

std::unique_ptr<Dataset> dataset_of(const std::string& text, const Tokenizer& tokenizer,
                                    std::int64_t context) {
  return std::make_unique<TextDataset>(tokenizer.encode(text), std::ssize(text), context,
                                       tokenizer.vocabulary());
}

}  // namespace

TextDataset::TextDataset(std::vector<std::int32_t> tokens, std::int64_t bytes, std::int64_t context,
                         std::int64_t vocabulary)
    : tokens_(std::move(tokens)), bytes_(bytes), context_(context), vocabulary_(vocabulary) {
  BRIGADE_CHECK(context > 0, "text: expected a context of at least 1 token, got {}", context);
  if (std::ssize(tokens_) <= context) {
    throw UsageError(
        fmt::format("text: expected more than {} tokens (--context) to train on and to test with, "
                    "got {}; lower --context or add text",
                    context, tokens_.size()));
  }
}

std::uint64_t TextDataset::checksum() const {
  return XXH3_64bits(tokens_.data(), tokens_.size() * sizeof(tokens_[0]));
}

void TextDataset::read(std::span<const std::int64_t> samples, const Batch& batch) const {
  auto* inputs = batch.inputs.data<std::int64_t>();
  auto* targets = batch.targets.data<std::int64_t>();
  for (const std::int64_t sample : samples) {
    const auto first = tokens_.begin() + sample * context_;
    inputs = std::copy_n(first, context_, inputs);
    targets = std::copy_n(first + 1, context_, targets);
  }
}

DataSplits load_text(const fs::path& path, const Tokenizer& tokenizer, std::int64_t context) {
  constexpr std::size_t kTestShare = 10;  // one of so many
  std::string train;
  std::string test;
  std::error_code absent;
  if (fs::is_directory(path, absent)) {
    std::size_t number = 0;
    for (const fs::path& file : files_below(path)) {
      if (const std::string text = text_of_file(file); !text.empty()) {
        (++number % kTestShare == 0 ? test : train) += text;
      }
    }
  } else {
    train = text_of_file(path);
  }
  if (test.empty()) {  // too few files to keep one back
    const std::size_t kept = train.size() - train.size() / kTestShare;
    test = train.substr(kept);
    train.resize(kept);
  }
  if (train.empty()) {
    throw UsageError(
        fmt::format("text: expected a file of text or a directory of such, got {}", path.string()));
  }
  return {.name = path.string(),
          .train = dataset_of(train, tokenizer, context),
          .test = dataset_of(test, tokenizer, context)};
}

}  // namespace brigade::data
