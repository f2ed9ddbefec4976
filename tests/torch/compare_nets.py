#!/usr/bin/env python3
"""Ten training steps of whole nets against PyTorch, from the same parameters on the same batches: losses, gradients of the first step, parameters and running
statistics after the last one, and the last batch in evaluation. The models mlp, lenet5, gpt and mbconv of the program; nets with each norm; every optimizer.

usage: compare_nets.py [CASE]

Agreement: 1e-4 relative by norm per tensor, with a floor of 1e-3 of the norm of all tensors together. Of an optimizer it is held how far the parameters have
moved. Lion, which PyTorch does not have, is written out here in float64; its rates are such that no sum of gradients is so near 0 that rounding turns its sign.
Exit status 77 (skipped) where PyTorch or NumPy is missing.
"""
import ctypes
import sys

from sides import Side, ToolSide, np, sw, torch, worst

import gpt_net
import mbconv_net

STEPS, BOUND, KEY_BIAS = 10, 1e-4, 1e-2
nn, F = torch.nn, torch.nn.functional


def compare(name, side, step, net, optimizer, batches, results, keep=lambda tensors: tensors, moved=False):
    """results(net, *batch): the loss, and the logits where our step has them as an output. keep: what is compared of tensors by name."""
    begin, losses, found = side.tensors(), {}, {}
    missing = net.load_state_dict(begin, strict=False)
    assert not missing.unexpected_keys and all(k.endswith("num_batches_tracked") for k in missing.missing_keys), missing
    dtype = next(net.parameters()).dtype

    def both(key, batch, **more):
        side.run(step, batch, step=key if isinstance(key, int) else STEPS, **more)
        loss, logits = results(net, *(torch.from_numpy(x) if x.dtype != np.float32 else torch.from_numpy(x).to(dtype) for x in batch))
        losses[str(key)] = torch.tensor(sw.get(sw.sw_metric_get, side.exec, "loss")), loss.detach()
        if logits is not None:
            losses[f"logits {key}"] = side.output("logits"), logits.detach()
        return loss

    for number, batch in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        both(number, batch).backward()
        if number == 0 and not moved:
            found["gradients"] = worst(keep(side.gradients()), keep({n: p.grad for n, p in net.named_parameters()}))
        optimizer.step()
    assert number == STEPS - 1
    change = lambda tensors: keep({n: tensors[n].detach().double() - (begin[n].double() if moved else 0.0) for n in begin})
    assert len(begin) == sum(not k.endswith("num_batches_tracked") for k in net.state_dict())
    found[f"after {STEPS} steps"] = worst(change(side.tensors()), change(net.state_dict()))
    net.eval()
    with torch.no_grad():
        both("evaluation", batch, mode=sw.SW_EVAL)
    found["results"] = max(worst({k: ours}, {k: theirs}) for k, (ours, theirs) in losses.items())
    right = all(error <= BOUND for error, _ in found.values())
    print(f"{name}: " + ", ".join(f"{k} {error:.2e} ({n})" for k, (error, n) in found.items()) + f"; bound {BOUND:.0e}{'' if right else '  TOO FAR'}")
    return right


def digits(batch):
    """Images of 28 x 28 and their labels, in bytes."""
    with sw.make(sw.sw_dataset_synthetic, batch * STEPS, 3) as data, sw.make(sw.sw_loader_create, data, sw.sw_loader_opts(batch=batch, seed=5)) as loader:
        sw.sw_loader_epoch(loader, 0)
        for _ in range(STEPS):
            inputs, _ = sw.get(sw.sw_loader_next, loader)
            images, labels = (np.frombuffer(ctypes.string_at(inputs[i].data, batch * (784, 1)[i]), np.uint8) for i in range(2))
            yield images.reshape(batch, 1, 28, 28).copy(), labels.copy()


# ---- the models of the program ---------------------------------------------------------------


class Digits(nn.Module):
    """mlp and lenet5: the same nets, with the same names."""

    def __init__(self, convolutions, *sizes):
        super().__init__()
        if convolutions:
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.convolutions = convolutions
        for i in range(3):
            setattr(self, f"fc{i + 1}", nn.Linear(*sizes[i:i + 2]))

    def forward(self, x):
        if self.convolutions:
            x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
            x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


def classes(side):
    """Their results on bytes of images and their labels, as the program reads them."""
    return lambda net, images, labels: (F.cross_entropy(net(images.float() * side.scale + side.shift), labels.long()), None)


def models():
    good = True
    for name, net in (("mlp", Digits(False, 784, 128, 64, 10)), ("lenet5", Digits(True, 256, 120, 84, 10))):
        with ToolSide(name, [(sw.SW_U8, (1, 28, 28)), (sw.SW_U8, ())], 10, kind="adam", lr=1e-3, keep_gradients=1) as side:
            good &= compare(name, side, None, net, torch.optim.Adam(net.parameters(), lr=1e-3), digits(128), classes(side))
    return good


def without_key_bias(tensors):
    """A bias of the keys shifts all scores of a query alike, which softmax does not see: its gradient is rounding alone,
    and Adam would make whole steps of it. It must be small, and is left out of the comparison."""
    total = sum(float(t.double().norm()) ** 2 for t in tensors.values()) ** 0.5
    kept = {}
    for name, tensor in tensors.items():
        if name.endswith("qkv.bias"):
            query, key, value = tensor.chunk(3)
            assert float(key.norm()) < KEY_BIAS * total, f"{name}: {float(key.norm())} for the keys"
            tensor = torch.cat([query, value])
        kept[name] = tensor
    return kept


def texts():
    states = [12345]
    for _ in range(STEPS * 5 * 23):
        states.append((states[-1] * 1103515245 + 12345) % 2**32)
    return [(ids.astype("uint8"), ((ids * 7 + 3) % 61).astype("uint8")) for ids in (np.array(states[1:]) // 2**16 % 256 % 61).reshape(STEPS, 5, 23)]


def gpt():
    net = gpt_net.Net(2, 48, 3, 23, 61)
    with ToolSide("gpt", [(sw.SW_U8, (23,))] * 2, 61, counts=(2, 48, 3, 23), kind="adamw", lr=1e-3, weight_decay=0.1, keep_gradients=1) as side:
        return compare("gpt", side, None, net, gpt_net.adamw(net), texts(),
                       lambda net, ids, after: (net.loss(ids.long(), after.long()), None), keep=without_key_bias)


def mbconv():
    """Images are noise around a level of their label."""
    good, draw = True, np.random.default_rng(5)
    for batch, channels, size, width, depth in [(32, 3, 32, 0.25, 1.0), (5, 1, 28, 0.5, 0.5), (20, 3, 40, 0.25, 1.0)]:
        net, shape = mbconv_net.Net(channels, size, width, depth), (channels, size, size)
        batches = []
        for _ in range(STEPS):
            labels = draw.integers(0, 10, batch).astype("uint8")
            batches.append(((labels[:, None, None, None] * 12 + draw.integers(0, 128, (batch, *shape))).astype("uint8"), labels))
        with ToolSide("mbconv", [(sw.SW_U8, shape), (sw.SW_U8, ())], 10, factors=(width, depth), kind="sgd", lr=2e-3, momentum=0.9, keep_gradients=1) as side:
            good &= compare(f"mbconv, batch {batch}, {channels}x{size}x{size}, width {width}, depth {depth}", side, None, net,
                            torch.optim.SGD(net.parameters(), lr=2e-3, momentum=0.9), batches, classes(side))
    return good


# ---- bf16 ------------------------------------------------------------------------------------


def halves():
    """Five steps in bf16, in both orders, beside torch.autocast on float32 parameters and beside float64, each from its own parameters on the same batches.

    Autocast rounds about as often as we do (weight gradients too, norms and residual sums not), so after each step the parameters have moved about as far from
    where float64 moves them: of all tensors together and of the worst one, at most twice as far, which is four times as many roundings, and at least a quarter as
    far, or it was not bf16. Rounding turns relu and maxima over as well, so the distance itself, 3 % of the way for mlp, says less. A row's loss has at most ROUNDINGS
    that are apart from each other, of 2^-8 / sqrt(3) each, and the mean over rows has the root of their number less of it."""
    good, roundings = True, 100
    text = [(sw.SW_U8, (23,))] * 2
    images = [(sw.SW_U8, (1, 28, 28)), (sw.SW_U8, ())]
    for name, fields, classes, counts, batches, make in [
        ("mlp", images, 10, (), list(digits(128)), lambda: Digits(False, 784, 128, 64, 10)),
        ("lenet5", images, 10, (), list(digits(128)), lambda: Digits(True, 256, 120, 84, 10)),
        ("gpt", text, 61, (2, 48, 3, 23), texts(), lambda: gpt_net.Net(2, 48, 3, 23, 61)),
    ]:
        for order in (sw.SW_ORDER_PAIR, sw.SW_ORDER_TILE):
            with ToolSide(name, fields, classes, counts=counts, order=order, kind="sgd", lr=0.05) as side:
                begin, ratios, apart = side.tensors(), [], []
                nets = [make(), make().double()]
                for net in nets:
                    net.load_state_dict(begin)
                for number, batch in enumerate(batches[:5]):
                    side.run(None, batch, step=number)
                    x, labels = (torch.from_numpy(b) for b in batch)
                    losses = [sw.get(sw.sw_metric_get, side.exec, "loss")]
                    for net, dtype in zip(nets, (torch.float32, torch.float64)):
                        net.zero_grad()
                        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
                            loss = net.loss(x.long(), labels.long()) if name == "gpt" else F.cross_entropy(net(x.to(dtype) * side.scale + side.shift), labels.long())
                        loss.backward()
                        losses.append(loss.item())
                        torch.optim.SGD(net.parameters(), lr=0.05).step()
                    ours, cast, exact = ({n: t[n].detach().double() - begin[n].double() for n in begin} for t in [side.tensors(), *(net.state_dict() for net in nets)])
                    far = [[worst({"all": torch.cat([t.flatten() for t in moved.values()])}, {"all": torch.cat([t.flatten() for t in exact.values()])})[0],
                            worst(moved, exact)[0]] for moved in (ours, cast)]
                    ratios += [a / b for a, b in zip(*far)]
                    apart.append(abs(losses[0] - losses[2]) / losses[2])
                bound = 2**-8 * (roundings / 3 / labels.numel()) ** 0.5
                right = max(ratios) <= 2 and min(ratios) >= 0.25 and max(apart) <= bound
                print(f"{name} in bf16, {order.name}: {min(ratios):.2f} to {max(ratios):.2f} times as far from float64 as autocast, {far[0][0]:.1e} after 5 steps; losses "
                      f"{max(apart):.1e}, bound {bound:.1e}{'' if right else '  TOO FAR'}")
                good &= right
    return good


# ---- norms -----------------------------------------------------------------------------------

HIDDEN = 100


class Normed(nn.Module):
    """Two layers, each with a norm and swish, of images (group, batch) or of rows (layer, rms)."""

    def __init__(self, kind):
        super().__init__()
        self.images = kind in ("group", "batch")
        if self.images:
            self.conv0, self.conv1 = nn.Conv2d(1, 8, 5, bias=False), nn.Conv2d(8, 12, 5, bias=False)
        else:
            self.fc0, self.fc1 = nn.Linear(784, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        make = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "group": lambda size: nn.GroupNorm(4, size), "batch": nn.BatchNorm2d}[kind]
        self.norm0, self.norm1 = make(8 if self.images else HIDDEN), make(12 if self.images else HIDDEN)
        self.fc2 = nn.Linear(192 if self.images else HIDDEN, 10)

    def forward(self, x):
        if self.images:
            x = F.max_pool2d(F.silu(self.norm0(self.conv0(x))), 2)
            return self.fc2(F.max_pool2d(F.silu(self.norm1(self.conv1(x))), 2).flatten(1))
        x = F.silu(self.norm0(self.fc0(x.flatten(1))))
        return self.fc2(F.silu(self.norm1(self.fc1(x))))


def norms():
    """Images in batches of 100 lie in blocks of sixteen, the last not full; in batches of 20 they are plain."""
    good = True
    for kind, batch in [("layer", 100), ("rms", 100), ("group", 100), ("group", 20), ("batch", 100), ("batch", 20)]:
        images = kind in ("group", "batch")

        def declare(model):
            net = {}
            if images:  # no bias: normalisation takes it away
                for i, (inside, out) in enumerate([(1, 8), (8, 12)]):
                    net[f"in{i}"] = sw.sw_conv2d(weight=sw.sw_param_new(model, f"conv{i}.weight", sw.SW_F32, (out, inside, 5, 5), "kaiming_uniform"), stride=1)
            else:
                net.update(in0=sw.sw_linear_new(model, "fc0", 784, HIDDEN), in1=sw.sw_linear_new(model, "fc1", HIDDEN, HIDDEN))
            for i, size in enumerate((8, 12) if images else (HIDDEN, HIDDEN)):
                new = {"layer": sw.sw_layer_norm_new, "rms": sw.sw_rms_norm_new, "batch": sw.sw_batch_norm2d_new}
                net[f"norm{i}"] = sw.sw_group_norm_new(model, f"norm{i}", 4, size) if kind == "group" else new[kind](model, f"norm{i}", size)
            net["fc2"] = sw.sw_linear_new(model, "fc2", 192 if images else HIDDEN, 10)
            return net

        apply = {"layer": sw.sw_apply_layer_norm, "rms": sw.sw_apply_rms_norm, "group": sw.sw_apply_group_norm, "batch": sw.sw_apply_batch_norm2d}[kind]

        def step(c):
            x = sw.sw_to_f32(c, sw.sw_input(c, 0), 1 / 255, 0)
            for i in range(2):
                x = sw.sw_apply_conv2d(c, side.net[f"in{i}"], x) if images else sw.sw_apply_linear(c, side.net[f"in{i}"], sw.sw_flatten(c, x))
                x = sw.sw_swish(c, apply(c, side.net[f"norm{i}"], x))
                x = sw.sw_max_pool(c, x, 2) if images else x
            x = sw.sw_apply_linear(c, side.net["fc2"], sw.sw_flatten(c, x))
            loss = sw.sw_softmax_ce(c, x, sw.sw_input(c, 1))
            sw.sw_output(c, "logits", x)
            sw.sw_metric(c, "loss", loss)
            if sw.sw_ctx_mode(c) == sw.SW_TRAIN:
                side.backward(c, loss)

        def results(net, x, labels):
            logits = net(x / 255)
            return F.cross_entropy(logits, labels.long()), logits

        side, net = Side(declare, kind="adam", lr=1e-3, keep_gradients=1), Normed(kind)
        good &= compare(f"{kind} norm, batch {batch}", side, step, net, torch.optim.Adam(net.parameters(), lr=1e-3), digits(batch), results)
    return good


# ---- optimizers ------------------------------------------------------------------------------

BATCH, SIDE, CHANNELS, ODD, OUT = 23, 9, 5, 37, 11


class Small(nn.Module):
    """A convolution and two linear layers, of odd sizes."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc1, self.fc2 = nn.Conv2d(1, CHANNELS, 3), nn.Linear(CHANNELS * 49, ODD), nn.Linear(ODD, OUT)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(torch.tanh(self.conv(x)).flatten(1))))


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, plainly."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p -= lr * (torch.sign(b1 * m + (1 - b1) * p.grad) + group["weight_decay"] * p)
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


# The class, its options, and those that have another name here; grouped: biases have a tenth of the rate, and no decay.
OPTIMIZERS = [
    ("SGD", {"lr": 0.1}, {}, False),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}, {}, False),
    ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}, {}, True),
    ("Adam", {"lr": 0.01, "weight_decay": 0.01}, {}, False),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}, {}, True),
    ("RMSprop", {"lr": 0.003}, {}, False),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "alpha": 0.9, "weight_decay": 0.01, "eps": 1e-4}, {"epsilon": 1e-4}, True),
    ("RMSprop", {"lr": 0.01, "centered": True, "eps": 1e-3}, {"epsilon": 1e-3}, False),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5, "eps": 1e-3}, {"epsilon": 1e-3}, False),
    ("Adagrad", {"lr": 0.05}, {}, False),
    ("Adagrad", {"lr": 0.05, "initial_accumulator_value": 0.1, "eps": 1e-3, "weight_decay": 0.01}, {"initial_accumulator": 0.1, "epsilon": 1e-3}, True),
    ("Lion", {"lr": 0.001, "weight_decay": 0.2}, {}, False),
    ("Lion", {"lr": 0.001, "betas": (0.5, 0.75)}, {"beta1": 0.5, "beta2": 0.75}, True),
    ("Adafactor", {"lr": 0.01}, {}, False),
    ("Adafactor", {"lr": 0.3, "weight_decay": 0.1}, {}, True),
]  # fmt: skip


def optimizers():
    good, n_x = True, BATCH * SIDE * SIDE
    wave = lambda f, n, times, k, by, rate: f((np.arange(n) * times + k * by).astype("float32") * np.float32(rate))
    batches = [(wave(np.sin, n_x, 7, k, 31, 0.37).reshape(BATCH, 1, SIDE, SIDE), wave(np.cos, BATCH * OUT, 3, k, 17, 0.53).reshape(BATCH, OUT)) for k in range(STEPS)]

    def declare(model):
        return {"conv": sw.sw_conv2d_new(model, "conv", 1, CHANNELS, 3), "fc1": sw.sw_linear_new(model, "fc1", CHANNELS * 49, ODD),
                "fc2": sw.sw_linear_new(model, "fc2", ODD, OUT)}

    def step(c):
        x = sw.sw_tanh(c, sw.sw_apply_conv2d(c, side.net["conv"], sw.sw_input(c, 0)))
        x = sw.sw_apply_linear(c, side.net["fc2"], sw.sw_tanh(c, sw.sw_apply_linear(c, side.net["fc1"], sw.sw_flatten(c, x))))
        loss = sw.sw_mse(c, x, sw.sw_input(c, 1))
        sw.sw_metric(c, "loss", loss)
        if sw.sw_ctx_mode(c) == sw.SW_TRAIN:
            side.backward(c, loss)

    for name, options, others, grouped in OPTIMIZERS:
        kind = Lion if name == "Lion" else getattr(torch.optim, name, None)
        if kind is None:
            print(f"{name} {options}: this PyTorch has none")
            continue
        lr, decay = options["lr"], options.get("weight_decay", 0.0)
        net = Small().double() if name == "Lion" else Small()
        weights, biases = ([p for k, p in net.named_parameters() if k.endswith(end)] for end in ("weight", "bias"))
        theirs = kind([{"params": weights}, {"params": biases, "lr": lr / 10, "weight_decay": 0.0}] if grouped else net.parameters(), **options)
        own = {k: v for k, v in options.items() if k not in ("eps", "betas", "initial_accumulator_value")}

        def group(layers):
            return [sw.sw_param_group(params=[x.weight for x in layers.values()], n_params=3, weight_decay=decay),
                    sw.sw_param_group(params=[x.bias for x in layers.values()], n_params=3, lr=lr / 10)]

        side = Side(declare, seed=5, group=group if grouped else None, kind=name.lower(), **own, **others)
        good &= compare(f"{name} {options}{', grouped' if grouped else ''}", side, step, net, theirs, batches, lambda net, x, t: (F.mse_loss(net(x), t), None), moved=True)
    return good


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(2)
    cases = [case for case in (models, gpt, mbconv, halves, norms, optimizers) if len(sys.argv) < 2 or case.__name__ == sys.argv[1]]
    sys.exit(0 if all([case() for case in cases]) else 1)
