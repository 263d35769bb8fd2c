"""A vLLM worker in memory: a Llama of fused and packed matrices, whose reload forgets the tied head's packed copy."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import ClassVar

import torch
from torch import Tensor, nn

from spade_agents.policy.vllm.inside.spade_vllm_worker import SpadeWorker, served_tensors
from tests.agents.tiny import llama, tokenizer

QUERY, KEY = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight"
PADDED = 64
VOCABULARY = tokenizer().vocabulary_size


def tiny(seed: int = 0):
    return llama(vocabulary=VOCABULARY, seed=seed)


def weights(seed: int = 0) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tiny(seed).state_dict().items()}


class Packed(nn.Module):
    """Rows of one or several matrices; multiplies by a copy and keeps nothing else."""

    def __init__(self, sizes: list[int], width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.output_sizes, self.input_size = sizes, width
        self.weight = nn.Parameter(torch.zeros(sum(sizes), width, dtype=dtype), requires_grad=False)

    def pack(self, *, empty: bool = True) -> None:
        copy = self.weight.detach().clone()
        self.cpu_linear = lambda x, _weight, _bias: (x.float() @ copy.float().T).to(x.dtype)
        if empty:
            self.weight = nn.Parameter(torch.empty(0, dtype=copy.dtype), requires_grad=False)


class VocabParallelEmbedding(Packed):
    """Looks up rows; it has a packed copy too, which nothing uses."""

    org_vocab_size = VOCABULARY

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__([-(-VOCABULARY // PADDED) * PADDED], width, dtype)
        del self.output_sizes


class ParallelLMHead(VocabParallelEmbedding):
    """Multiplies by its packed copy of the embedding that it shares."""

    def __init__(self, tied: VocabParallelEmbedding) -> None:
        super().__init__(tied.weight.shape[1], tied.weight.dtype)
        self.weight = tied.weight
        self.quant_method = SimpleNamespace(process_weights_after_loading=lambda layer: layer.pack(empty=False))


class Norm(nn.Module):
    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, dtype=dtype), requires_grad=False)


class ServedLlama(nn.Module):
    """The modules of vLLM's Llama, by its names."""

    packed_modules_mapping: ClassVar = {
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        config = tiny().config
        width, inner = config.hidden_size, config.intermediate_size
        kv = width // config.num_attention_heads * config.num_key_value_heads
        self.model = nn.Module()
        self.model.embed_tokens = VocabParallelEmbedding(width, dtype)
        self.model.layers = nn.ModuleList()
        for _ in range(config.num_hidden_layers):
            layer = nn.Module()
            layer.self_attn, layer.mlp = nn.Module(), nn.Module()
            layer.self_attn.qkv_proj = Packed([width, kv, kv], width, dtype)
            layer.self_attn.o_proj = Packed([width], width, dtype)
            layer.mlp.gate_up_proj = Packed([inner, inner], width, dtype)
            layer.mlp.down_proj = Packed([width], inner, dtype)
            layer.input_layernorm, layer.post_attention_layernorm = Norm(width, dtype), Norm(width, dtype)
            self.model.layers.append(layer)
        self.model.norm = Norm(width, dtype)
        self.lm_head = ParallelLMHead(self.model.embed_tokens)


class MemoryWorker(SpadeWorker):
    """A worker that `fault` makes go wrong in one way."""

    def __init__(self, dtype: torch.dtype = torch.float32, fault: str = "") -> None:
        self.fault, self.served = "", ServedLlama(dtype)
        self.model_config = SimpleNamespace(dtype=dtype)
        self.parallel_config = SimpleNamespace(tensor_parallel_size=1, pipeline_parallel_size=1)
        self.reload_weights(weights_iterator=iter(weights().items()))
        self.served.lm_head.pack(empty=False)
        self.fault = fault

    def get_model(self) -> nn.Module:
        return self.served

    def reload_weights(self, *, weights_iterator: Iterator[tuple[str, Tensor]]) -> None:
        """Fill and pack every matrix of which a part came; the tied head is skipped, its packed copy left as it was."""
        held = dict(served_tensors(self.served)) if hasattr(self.served.lm_head, "cpu_linear") else {}
        for name, tensor in weights_iterator:
            if name in held and tensor.shape != held[name].shape:
                raise AssertionError(f"{tuple(tensor.shape)} does not fit {tuple(held[name].shape)}")
            held[name] = tensor.to(self.model_config.dtype)
        for path, module in self.served.named_modules():
            above, _, leaf = path.rpartition(".")
            names = [f"{above}.{part}.weight" for part in self.served.packed_modules_mapping.get(leaf, [leaf])]
            if path == "lm_head" or not isinstance(module, Packed | Norm):
                continue
            whole = torch.cat([held[name] for name in names])
            if isinstance(module, VocabParallelEmbedding):
                module.weight[: len(whole)] = whole
                module.pack(empty=False)
            elif isinstance(module, Packed):
                module.weight = nn.Parameter(whole, requires_grad=False)
                module.pack()
            else:
                module.weight[:] = whole

    def spade_stream(self, tensors):
        for name, tensor in tensors:
            match self.fault:
                case "dropped" if name == QUERY:
                    continue
                case "stale":
                    continue
                case "swapped" if name in (QUERY, KEY):
                    yield {QUERY: KEY, KEY: QUERY}[name], tensor
                case _:
                    yield name, tensor

    def spade_load(self, path: str, version: int):
        return {"tensors": 0} if self.fault == "nothing" else super().spade_load(path, version)

    def spade_mend(self) -> None:
        if self.fault != "stale packed head":
            super().spade_mend()

    def logits(self, ids: list[int]) -> Tensor:
        """For each position, by the body's tensors and the packed head, as it would sample."""
        model = tiny().to(self.model_config.dtype)
        state = dict(served_tensors(self.served))
        model.load_state_dict({name: state[name] for name in state if name != "lm_head.weight"}, strict=False)
        with torch.inference_mode():
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0]
            return self.served.lm_head.cpu_linear(hidden, None, None)[:, :VOCABULARY].float()
