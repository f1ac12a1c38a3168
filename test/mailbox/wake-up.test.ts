/**
 * Who sleeps announces it and looks again; who writes publishes and then looks whether the other sleeps. One frame at a
 * time and no timer anywhere, so a wake-up that is lost is never made up for: the test stands still until its deadline.
 */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { createTeam } from 'dramatis'
import t from 'tap'
import { ASLEEP, Window } from '../../src/mailbox/channel.ts'
import { correlationOf, HEADER, SEND, writeControl } from '../../src/mailbox/frame.ts'
import { HOST_ASLEEP, HOST_CALLED, TeamMemory } from '../../src/mailbox/team-memory.ts'
import type { PingPong } from '../fixtures/ping-pong.ts'
import { dice } from './ring-traffic.ts'

const ROUNDS = 20_000
const DEADLINE = { timeout: 45_000 }

for (const lane of ['plain', 'replies'] as const) {
  t.test(`host and thread alternate over ${lane} and never sleep through a frame`, DEADLINE, async (t) => {
    const rounds = ROUNDS / 4
    for (const patience of [0, 20, 300, 3_000]) t.equal(await pingPong(lane, rounds, patience), rounds)
  })
}

t.test('a team and its agent alternate and never sleep through a message', DEADLINE, async (t) => {
  const team = createTeam({
    agents: [{ name: 'echo', module: new URL('../fixtures/transport/echo.js', import.meta.url) }],
    orchestration: {
      strategy: 'custom',
      async run(orchestrator) {
        let round = 0
        for (; round < ROUNDS / 2; round++) {
          const { content } = await orchestrator.request('echo', String(round))
          if (content !== String(round)) break
        }
        return String(round)
      },
    },
    supervision: { watchdogMs: false }, // it rings now and then, which would wake who slept through a message
  })
  t.teardown(() => team.close())
  const result = await team.execute('go')
  t.equal(result.finalOutput, String(ROUNDS / 2))
})

/** Sends frames 1 to `rounds`, each when the one before it was answered. Resolves with the last answer. */
async function pingPong(lane: PingPong['lane'], rounds: number, patience: number): Promise<number> {
  const window = new Window()
  const team = new TeamMemory(1)
  const workerData: PingPong = { window: window.buffer, team: team.buffer, rounds, lane, patience, seed: patience + 1 }
  const worker = new Worker(new URL('../fixtures/ping-pong.js', import.meta.url), { workerData })
  const roll = dice(patience + 2)
  let answered = 0

  const send = (number: number) => {
    const ring = window[lane]
    const at = ring.reserve(HEADER)
    writeControl(ring.memory, at, SEND, 0, 0, 0, 0, number, 0)
    ring.advance(HEADER)
    ring.publish()
    const state = Atomics.load(window.words, ASLEEP)
    if (state > 0 && Atomics.compareExchange(window.words, ASLEEP, state, 0) === state) worker.postMessage(0)
  }

  const tick = () => {
    do {
      Atomics.store(team.words, HOST_ASLEEP, 0)
      Atomics.store(team.words, HOST_CALLED, 0)
      for (let at = window.outbox.peek(); at >= 0; at = window.outbox.peek()) {
        answered = correlationOf(window.outbox.memory, at)
        window.outbox.pass(HEADER)
        window.outbox.release()
        if (answered < rounds) send(answered + 1)
      }
      for (let looks = roll(patience + 1); looks > 0 && !window.outbox.more(); looks--);
      Atomics.store(team.words, HOST_ASLEEP, 1)
    } while (Atomics.load(team.words, HOST_CALLED) === 1)
  }

  worker.on('message', tick)
  send(1)
  tick()
  await once(worker, 'exit')
  tick() // a thread that is gone may have published before it went
  return answered
}
