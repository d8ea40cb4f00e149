#pragma once

#include <filesystem>

#include "core/io/checksum.h"
#include "core/io/named_tensors.h"

namespace brigade {

/// Writes a .safetensors file (8-byte little-endian header length, JSON header, raw data), readable
/// by PyTorch. Atomic: written to a temporary file beside `path`, fsynced, renamed, so a reader or
/// a crash never sees half a file. GPU tensors are copied to the host first. Error: cannot write
/// (UsageError where the file cannot be made), with the system's reason; a name twice. Returns the
/// checksum of the file.
Checksum save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors);

/// Reads all tensors onto the CPU, in file order of their data. UsageError naming the file and the
/// fault for anything that is not a well-formed safetensors file: short file, header too long, bad
/// JSON, unknown dtype, offsets that overlap, leave holes, exceed the file or disagree with the
/// shape.
NamedTensors load_safetensors(const std::filesystem::path& path);

}  // namespace brigade
