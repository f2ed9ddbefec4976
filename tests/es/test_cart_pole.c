/* Cart-pole against another way to its accelerations: the two equations of motion, solved as a
 * linear system. Also the end of an episode, and its start. */
#include "tests/support/suite.h"
#include "tools/es/cart_pole.h"

SW_TESTS("cart-pole")

/* Lagrange's equations of a cart of mass M and a rod of mass m and half length l on it, whose
 * moment of inertia about its middle is m l^2 / 3:
 *     (M + m) x'' + m l cos(a) a''         = F + m l sin(a) a'^2
 *     m l cos(a) x'' + (m l^2 + m l^2 / 3) a'' = m g l sin(a) */
static void plain_step(double *x, double *v, double *a, double *w, double force)
{
    const double big = 1.0, small = 0.1, l = 0.5, g = 9.8, tau = 0.02;
    const double m11 = big + small, m12 = small * l * cos(*a);
    const double m22 = small * l * l * (4.0 / 3.0);
    const double r1 = force + small * l * sin(*a) * *w * *w, r2 = small * g * l * sin(*a);
    const double det = m11 * m22 - m12 * m12;
    const double xx = (r1 * m22 - m12 * r2) / det, aa = (m11 * r2 - m12 * r1) / det;
    *x += tau * *v;
    *v += tau * xx;
    *a += tau * *w;
    *w += tau * aa;
}

static bool near(double x, double y)
{
    return fabs(x - y) <= 1e-12 * (1.0 + fabs(y));
}

SW_TEST("a step is that of the equations of motion")
{
    sw_dice dice = {7};
    for (int i = 0; i < 20000; i++) {
        double n[4];
        for (int k = 0; k < 4; k++)
            n[k] = (double)sw_dice_below(&dice, 2000001) / 1e6 - 1.0;
        cart_pole c = {
            .place = 2.4 * n[0], .speed = 3.0 * n[1], .angle = 0.2 * n[2], .turn = 4.0 * n[3]};
        double x = c.place, v = c.speed, a = c.angle, w = c.turn;
        const bool right = sw_dice_below(&dice, 2) != 0;
        plain_step(&x, &v, &a, &w, right ? 10.0 : -10.0);
        cart_pole_step(&c, right);
        SW_CHECK(near(c.place, x) && near(c.speed, v) && near(c.angle, a) && near(c.turn, w),
                 "%d: %.17g %.17g %.17g %.17g and not %.17g %.17g %.17g %.17g", i, c.place,
                 c.speed, c.angle, c.turn, x, v, a, w);
        CU_ASSERT_EQUAL(c.steps, 1);
        CU_ASSERT_EQUAL(c.over, fabs(x) > 2.4 || fabs(a) > 12.0 * 3.14159265358979 / 180.0);
    }
}

/* Pushed to one side for ever: nine or ten steps, as everybody's cart-pole. */
SW_TEST("an episode ends, and stays as it ended")
{
    for (int right = 0; right < 2; right++) {
        cart_pole c = {.over = false};
        while (!c.over)
            cart_pole_step(&c, right != 0);
        SW_CHECK(c.steps >= 8 && c.steps <= 11, "%d steps", (int)c.steps);
        const cart_pole at = c;
        cart_pole_step(&c, right == 0);
        CU_ASSERT(c.steps == at.steps && c.place == at.place && c.turn == at.turn);
    }
    cart_pole off = {.place = 2.39, .speed = 5.0};
    cart_pole_step(&off, true);
    CU_ASSERT(off.over && off.steps == 1);
    cart_pole lost = {.place = (double)NAN};
    cart_pole_step(&lost, true);
    CU_ASSERT(lost.over);
}

/* By hand: against the fall, with some look at the turn. */
SW_TEST("a balanced pole stays for 500 steps")
{
    int most = 0;
    for (uint64_t e = 0; e < 20; e++) {
        cart_pole c = cart_pole_begin(3, e);
        while (!c.over) {
            float see[4];
            cart_pole_see(&c, 1, see);
            const float lean = see[2] + 0.4f * see[3] + 0.05f * see[0] + 0.1f * see[1];
            const float logits[2] = {0.0f, lean};
            (void)cart_pole_act(&c, 1, logits);
        }
        most += c.steps == CART_POLE_STEPS;
        CU_ASSERT(c.steps <= CART_POLE_STEPS);
    }
    SW_CHECK(most == 20, "%d of 20 episodes came to 500 steps", most);
}

SW_TEST("beginnings are uniform and of their seed")
{
    enum { N = 20000 };
    double mean[4] = {0}, square[4] = {0}, cross = 0.0;
    for (uint64_t e = 0; e < N; e++) {
        const cart_pole c = cart_pole_begin(11, e), again = cart_pole_begin(11, e);
        const cart_pole other = cart_pole_begin(12, e);
        const double n[4] = {c.place, c.speed, c.angle, c.turn};
        CU_ASSERT(c.place == again.place && c.turn == again.turn && !c.over && c.steps == 0);
        CU_ASSERT(c.place != other.place && c.turn != other.turn);
        for (int k = 0; k < 4; k++) {
            CU_ASSERT(fabs(n[k]) < 0.05);
            mean[k] += n[k] / N;
            square[k] += n[k] * n[k] / N;
        }
        cross += n[0] * n[2] / N;
    }
    for (int k = 0; k < 4; k++) { /* four deviations of each estimate */
        SW_CHECK(fabs(mean[k]) < 4.0 * 0.05 / sqrt(3.0 * N), "mean %g", mean[k]);
        SW_CHECK(fabs(square[k] / (0.0025 / 3.0) - 1.0) < 4.0 * sqrt(0.8 / N), "variance %g",
                 square[k]);
    }
    CU_ASSERT(fabs(cross) < 4.0 * 0.0025 / 3.0 / sqrt(N));
    const cart_pole far = cart_pole_begin(11, (uint64_t)1 << 32),
                    first = cart_pole_begin(11, 0);
    CU_ASSERT(far.place != first.place);
}

SW_TEST("many act as each does alone")
{
    enum { N = 33 };
    cart_pole all[N], one[N];
    float see[4 * N], logits[2 * N];
    sw_dice dice = {5};
    for (int i = 0; i < N; i++)
        all[i] = one[i] = cart_pole_begin(1, (uint64_t)i);
    for (int t = 0; t < 60; t++) {
        size_t left = 0;
        cart_pole_see(all, N, see);
        for (int i = 0; i < 2 * N; i++)
            logits[i] = (float)sw_dice_below(&dice, 1000);
        logits[0] = (float)NAN; /* no number is larger: to the left */
        for (int i = 0; i < N; i++) {
            CU_ASSERT(see[4 * i] == (float)one[i].place &&
                      see[4 * i + 3] == (float)one[i].turn);
            cart_pole_step(&one[i], i > 0 && logits[2 * i + 1] > logits[2 * i]);
            left += !one[i].over;
        }
        CU_ASSERT_EQUAL(cart_pole_act(all, N, logits), left);
    }
    for (int i = 0; i < N; i++)
        CU_ASSERT(all[i].steps == one[i].steps && all[i].angle == one[i].angle);
}
