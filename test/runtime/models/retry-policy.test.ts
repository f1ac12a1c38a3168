import t from 'tap'
import { type FailedAttempt, nextAttempt, RETRY_POLICY } from '../../../src/runtime/providers/provider-clients.ts'

const failed = (more: Partial<FailedAttempt> = {}): FailedAttempt => ({
  attempt: 1,
  elapsedMs: 0,
  failing: { retryable: true },
  read: false,
  random: 0,
  ...more,
})
const next = (more: Partial<FailedAttempt>, policy = RETRY_POLICY) => nextAttempt(policy, failed(more))

t.test('pauses double up to a cap, from half of it to all of it by chance', async (t) => {
  const policy = { ...RETRY_POLICY, baseMs: 100, capMs: 350, maxAttempts: 9 }
  const pauses = (random: number) => [1, 2, 3, 4].map((attempt) => next({ attempt, random }, policy))
  t.strictSame(pauses(0), [{ waitMs: 50 }, { waitMs: 100 }, { waitMs: 175 }, { waitMs: 175 }])
  t.strictSame(pauses(0.5), [{ waitMs: 75 }, { waitMs: 150 }, { waitMs: 262.5 }, { waitMs: 262.5 }])
})

t.test('what the provider wants goes before a shorter pause, not before a longer one', async (t) => {
  t.strictSame(next({ failing: { retryable: true, retryAfterMs: 7_000 } }), { waitMs: 7_000 })
  t.strictSame(next({ attempt: 4, failing: { retryable: true, retryAfterMs: 10 } }), { waitMs: 2_000 })
})

t.test(
  'it is over when it is not retryable, was read already, has had all attempts, or would be too late',
  async (t) => {
    t.strictSame(next({ failing: { retryable: false, retryAfterMs: 5 } }), { over: 'not_retryable' })
    t.strictSame(next({ read: true }), { over: 'already_read' })
    t.strictSame(next({ attempt: RETRY_POLICY.maxAttempts }), { over: 'max_attempts' })
    t.strictSame(next({ failing: { retryable: true, retryAfterMs: RETRY_POLICY.deadlineMs } }), { over: 'deadline' })
    t.strictSame(next({ elapsedMs: RETRY_POLICY.deadlineMs - 250 }), { over: 'deadline' })
  },
)
