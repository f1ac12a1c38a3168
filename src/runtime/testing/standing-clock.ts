/**
 * Tells a test that it waits for a team whose clock stands still. Nothing else would: the test ends by the limit of its
 * runner, without a reason.
 */
import { type Scheduler, systemClock, type Timer } from '../../clock.ts'
import { SteppedClock } from './virtual-clock.ts'

const LOOK_MS = 1_000 // real time

/** The team that is waited for. */
interface Watched {
  /** The team's clock; one that is not from here is not looked at. */
  clock: object
  /** True if the answer of a person is waited for. */
  isAsking(): boolean
  warn(text: string): void
}

/**
 * Warns once if the result is not there after a second of real time in which nothing has happened in virtual time.
 * Returns the result.
 */
export async function whileTimePasses<T>(
  result: Promise<T>,
  { clock, isAsking, warn }: Watched,
  real: Scheduler = systemClock,
): Promise<T> {
  if (!(clock instanceof SteppedClock)) return result
  const hold = real.hold() // else the process may end before it is told
  const lookAfter = (then: number): Timer =>
    real.timer(LOOK_MS, () => {
      const now = clock.monotonic()
      if (!clock.stands || now !== then) {
        timer = lookAfter(now)
        return
      }
      hold.cancel()
      warn(isAsking() ? ASKED : `${STANDS} ${clock.now()} ms: ${REMEDY}`)
    })
  let timer = lookAfter(clock.monotonic())
  try {
    return await result
  } finally {
    timer.cancel()
    hold.cancel()
  }
}

const STANDS = 'A test waits for an answer, and the clock of its team stands at'
const REMEDY =
  'time passes only while the test lets it. Ask first, let time pass, then wait: const running = team.execute(query); await team.clock.runToIdle(); await running. An agent of testAgent takes a clock: testAgent(agent, { clock: virtualClock() }).'
const ASKED =
  'A test waits for an answer, and the team waits for a person. Answer in the test: const run = team.launch(query); for await (const event of run.events()) if (event.type === "question") await run.answer(event.questionId, "yes").'
