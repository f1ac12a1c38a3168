/** What counts against a thread that is silent. */
import t from 'tap'
import { Silence } from '../../src/runtime/threads/thread.ts'

const R = true
const S = false

/** Looks 100 ms apart, each with what the system says since the thread began: ran, waited, whether it can run now. */
function after(...looks: [cpuMs: number, waitedMs: number, runnable: boolean][]) {
  const silence = new Silence(0)
  for (const [cpuMs, waitedMs, runnable] of looks) silence.add(100, 100, { cpuMs, waitedMs, runnable })
  return silence
}

t.test('what it ran and what it slept counts, what it waited for a processor does not', async (t) => {
  const silence = after([500, 0, S], [530, 50, S], [540, 120, S])
  t.equal(silence.cpuMs, 40)
  t.equal(silence.waitedMs, 120)
  t.equal(silence.blockedMs, 40)
})

t.test('a wait that is told when it is over was no sleep before', async (t) => {
  const silence = after([0, 0, R], [0, 0, R], [0, 0, R], [10, 290, S])
  t.equal(silence.blockedMs, 0)
  t.equal(silence.cpuMs, 10)
  t.notOk(after([0, 0, R], [0, 0, R], [0, 0, R], [0, 0, R]).isStuck(300))
})

t.test('sleep before a wait counts', async (t) => {
  t.equal(after([0, 0, S], [0, 0, S], [0, 0, R], [0, 100, R]).blockedMs, 100)
})

t.test('in the end doubt counts as well, and is called so', async (t) => {
  const silence = new Silence(0)
  for (let look = 0; look < 10; look++) silence.add(100, 100, { cpuMs: 0, waitedMs: 0, runnable: R })
  t.notOk(silence.isStuck(100))
  silence.add(100, 100, { cpuMs: 0, waitedMs: 0, runnable: R })
  t.ok(silence.isStuck(100))
  t.ok(silence.isDoubtful(100))
  t.notOk(after([0, 0, S], [0, 0, S], [0, 0, S]).isDoubtful(100), 'what has slept for so long is stuck')
})

t.test('of a late look only the processor time counts in full', async (t) => {
  const slept = new Silence(0)
  for (let look = 0; look < 2; look++) slept.add(10_000, 100, { cpuMs: 0, waitedMs: 0, runnable: S })
  t.equal(slept.blockedMs, 100)
  const ran = new Silence(0)
  for (let look = 0; look < 2; look++) ran.add(10_000, 100, { cpuMs: look * 9_000, waitedMs: 0, runnable: R })
  t.equal(ran.cpuMs, 9_000)
})

t.test('without figures all of the time counts', async (t) => {
  const silence = new Silence(0)
  for (let look = 0; look < 3; look++) silence.add(100, 100, undefined)
  t.ok(silence.isStuck(300))
  t.notOk(silence.isDoubtful(300))
  t.equal(silence.words, '300 ms')
})

t.test('figures of two sources that do not fit count nothing twice', async (t) => {
  const silence = after([500, 500, S], [0, 0, R], [50, 0, R])
  t.equal(silence.cpuMs, 50)
  t.equal(silence.blockedMs, 0)
})
