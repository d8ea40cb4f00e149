#!/usr/bin/env python3
"""make_gpt2_fixture.py: makes tests/data/gpt2 with PyTorch and Hugging Face's transformers.

A small random GPT-2 in their layout (config.json, model.safetensors), a text, the weights after 20 steps of AdamW on it
(expected.safetensors) and the logits of a prompt before them (logits.safetensors). The files were made with torch 2.15.0 and
transformers 5.24.0; tests/apps/train_gpt_test.cpp and tests/nn/gpt2_files_test.cpp compare Brigade with them.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).resolve().parent / "gpt2"
STEPS, BATCH, CONTEXT = 20, 12, 16
PROMPT = b"To be, or not"


def text():
    """Words in an order that a model can learn something from."""
    words = "to be or not to be that is the question whether tis nobler in the mind to suffer".split()
    return " ".join(words[i * i % 17 % len(words)] for i in range(1500)).encode()


def main():
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=256, n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():  # also what starts as 0 or 1
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.train()
    HERE.mkdir(exist_ok=True)
    model.save_pretrained(HERE)
    (HERE / "generation_config.json").unlink(missing_ok=True)
    data = text()
    (HERE / "text.txt").write_bytes(data)
    with torch.no_grad():
        save_file({"logits": model(torch.tensor([list(PROMPT)])).logits[0].contiguous()}, HERE / "logits.safetensors")

    tokens = torch.tensor(list(data))
    decaying = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decaying, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3)
    for step in range(STEPS):
        first = step * BATCH * CONTEXT
        x = tokens[first:first + BATCH * CONTEXT].view(BATCH, CONTEXT)
        y = tokens[first + 1:first + 1 + BATCH * CONTEXT].view(BATCH, CONTEXT)
        loss = torch.nn.functional.cross_entropy(model(x).logits.view(-1, 256), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(step + 1, loss.item())
    state = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    save_file({name: value.contiguous() for name, value in state.items()}, HERE / "expected.safetensors")


if __name__ == "__main__":
    main()
