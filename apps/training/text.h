#pragma once

#include "apps/flags/options.h"
#include "apps/report/console.h"
#include "nn/data/dataset.h"
#include "nn/gpt.h"

/// What train_gpt has instead of images.
namespace brigade::apps {

/// --text, or the sources of this project.
data::DataSplits load_text(const Options& options);

/// What the model writes after --prompt, --sample tokens.
void print_sample(const Options& options, nn::GPT& model, const Console& console);

}  // namespace brigade::apps
