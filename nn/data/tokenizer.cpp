#include "nn/data/tokenizer.h"

namespace brigade::data {

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) {
    tokens.push_back(static_cast<unsigned char>(byte));
  }
  return tokens;
}

std::string ByteTokenizer::decode(std::int64_t token) const {
  return {static_cast<char>(token)};
}

}  // namespace brigade::data
