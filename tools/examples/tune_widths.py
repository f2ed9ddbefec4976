#!/usr/bin/env python3
"""Ray Tune tries widths and learning rates of a net on digits. Each trial asks for the memory that its plan says, so as many run at
one time as fit; its checkpoint is the member's pack: parameters, optimizer state, seed and progress.

    python3 tools/examples/tune_widths.py      # needs ray[tune]"""
import ctypes
import os

from ray import tune
import stepwell as sw

BATCH, SAMPLES, TRIALS = 50, 2000, 12
SAMPLE_BYTES = 28 * 28 + 1


def plan_of(config):
    """Of the program, with the same layers, optimizer and batch as below."""
    return sw.plan(model="mlp", hidden=config["width"], optimizer="momentum", batch=BATCH)


def resources_of(config):
    """The plan, the samples, and a pack for each checkpoint that is written."""
    plan = plan_of(config)
    return tune.PlacementGroupFactory([sw.ray.resources(plan, data_sets=SAMPLES * SAMPLE_BYTES, more=plan["model_bytes"])])


class Digits(tune.Trainable):
    def setup(self, config):
        self.owners = []
        self.exec = self.own(sw.sw_exec_create, sw.sw_exec_opts(threads=1))
        shape = self.own(sw.sw_model_create, "mlp")
        self.fc1, self.fc2 = sw.sw_linear_new(shape, "fc1", 784, config["width"]), sw.sw_linear_new(shape, "fc2", config["width"], 10)
        self.how = sw.borrow(sw.sw_optimizer_create, shape, sw.sw_optimizer_opts(kind="sgd", momentum=0.9, lr=config["lr"]))
        data = self.own(sw.sw_dataset_synthetic, SAMPLES, 1)
        feed = self.own(sw.sw_feed_create, data, sw.sw_feed_opts(batch=BATCH, shuffle=1))
        self.group = self.own(sw.sw_members_create, self.exec, sw.sw_members_opts(shape=shape, fn=self.net))
        self.member = sw.sw_member()
        sw.sw_member_new(self.member, self.group, 1)
        self.turn = sw.sw_members_args(members=[self.member], n=1, feed=feed, own_steps=1, steps=SAMPLES // BATCH, mode=sw.SW_TRAIN)

    def own(self, function, *words):
        self.owners.append(sw.make(function, *words))
        return self.owners[-1]

    def net(self, c):
        x = sw.sw_flatten(c, sw.sw_to_f32(c, sw.sw_input(c, 0), 1 / 128, -1))
        x = sw.sw_apply_linear(c, self.fc2, sw.sw_relu(c, sw.sw_apply_linear(c, self.fc1, x)))
        loss = sw.sw_softmax_ce(c, x, sw.sw_input(c, 1))
        sw.sw_metric(c, "loss", loss)
        sw.sw_backward(c, loss, [self.how], 1)
        sw.sw_update(c, self.how)

    def step(self):
        """A turn of Tune is an epoch."""
        sw.sw_members_run(self.group, self.turn)
        loss = ctypes.c_double()
        sw.sw_members_mean(self.group, "loss", loss, 1)
        return {"loss": loss.value}

    def save_checkpoint(self, folder):
        pack = bytearray(sw.sw_members_packed_bytes(self.group))
        sw.sw_member_pack(self.member, sw.array(pack).data, len(pack))
        with open(os.path.join(folder, "member"), "wb") as f:
            f.write(pack)

    def load_checkpoint(self, folder):
        with open(os.path.join(folder, "member"), "rb") as f:
            pack = f.read()
        sw.sw_member_unpack(self.member, sw.array(pack).data, len(pack))

    def cleanup(self):
        while self.owners:
            self.owners.pop().close()


def search(trainable=Digits, **run):
    """The best of the trials, and all of them."""
    space = {"width": tune.grid_search([32, 256, 1024]), "lr": tune.loguniform(0.001, 0.1)}
    tuner = tune.Tuner(tune.with_resources(trainable, resources_of), param_space=space, run_config=tune.RunConfig(stop={"training_iteration": 3}, **run),
                       tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=TRIALS // 3))
    return tuner.fit()


if __name__ == "__main__":
    best = search().get_best_result()
    print(f"best of {TRIALS}: width {best.config['width']}, lr {best.config['lr']:.4f}, loss {best.metrics['loss']:.4f}")
