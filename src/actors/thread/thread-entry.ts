/**
 * Entry of a worker thread: waits for its assignment, loads the agent's code, then runs the agent loop. Bundled into
 * one file. A thread that model agents share has several loops, each at a seat of its own.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { expose } from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { type Scheduler, systemClock } from '../../shared/clock.ts'
import * as errors from '../../shared/errors.ts'
import { type CodeAssignment, OWN_SEAT, type Seat, type ThreadControl } from '../definition/assignment.ts'
import { toolParts } from '../definition/content.ts'
import { agentRef, defineAgent, type Imports, oneByOne } from '../definition/definition.ts'
import { defineProtocol } from '../definition/protocol.ts'
import { defineTool } from '../definition/tool.ts'
import { reportGrantsAlone } from '../turn/granted.ts'
import type { ThreadPort } from '../turn/link.ts'
import { followOwnWork, OwnWork, threadMemories, unseenBy } from '../turn/own-work.ts'
import { printed } from '../turn/run-tool.ts'
import { downloadsFrom } from '../turn/run-views.ts'
import { playFirstTurn, Resident } from './resident.ts'

/** Provided by thread-boot.cjs. */
declare const importModule: Imports
declare const hasPlayed: (() => void) | undefined

if (!parentPort) throw new Error('This file is the entry of an agent thread; it is started by the runtime.')
const parent = parentPort

// `import 'dramatis'` in a thread (thread-api.ts) reads these classes and functions, so the thread has no second copy.
Object.defineProperty(globalThis, Symbol.for('dramatis.thread'), {
  value: { ...errors, agentRef, defineAgent, defineProtocol, defineTool, toolParts },
})

reportGrantsAlone()

// Runs before any code of the agent loads, so that resources opened by its module belong to no turn.
const work = followOwnWork()

const {
  control: controlPort,
  parts: partsPort,
  zero,
} = workerData as { control: MessagePort; parts: MessagePort; zero: number }

/** The host says what time it is at `monotonic() === 0`, so all threads of the process agree. */
const clock: Scheduler = { ...systemClock, now: () => zero + systemClock.monotonic() }

const wake = () => parent.postMessage(0)

/** Listeners by seat. A wakeup is the number of a seat. */
const listeners = new Map<unknown, () => void>()

function onWake(seat: number, listener: () => void): void {
  if (listeners.size === 0) parent.on('message', (rung) => listeners.get(rung)?.())
  listeners.set(seat, listener)
}

const ownPort: ThreadPort = {
  wake,
  onWake: (listener) => onWake(OWN_SEAT, listener),
  scheduler: work ? unseenBy(work, clock) : clock,
  bytesOf: downloadsFrom(partsPort),
  memories: threadMemories,
  work,
}

/**
 * Port of an agent that shares the thread. None of these has code of its own, so none opens work of its own: its turns
 * wait for the host alone. Each call that leads to the agent's loop notes for whom the thread works, so that the host
 * can tell who is to blame for the thread's end.
 */
function sharedPort({ number, atWork }: Seat): ThreadPort {
  const words = new Int32Array(atWork)
  const note = () => void Atomics.store(words, 0, number)
  const noting = (task: () => void) => () => {
    note()
    task()
  }
  return {
    wake,
    onWake: (listener) => onWake(number, noting(listener)),
    scheduler: {
      ...clock,
      sleep: (ms, signal) => clock.sleep(ms, signal).finally(note),
      timer: (ms, task) => clock.timer(ms, noting(task)),
      defer: (task) => clock.defer(noting(task)),
    },
    work: new OwnWork(),
  }
}

const imports = oneByOne(importModule)
const residents = new Map<number, Resident>()

function residentOf({ seat }: CodeAssignment): Resident {
  const number = seat?.number ?? OWN_SEAT
  const resident = residents.get(number) ?? new Resident(seat ? sharedPort(seat) : ownPort, imports)
  residents.set(number, resident)
  return resident
}

const control: ThreadControl = {
  async warmUp(href) {
    await imports(href)
  },
  load: (assignment) => residentOf(assignment).load(assignment),
  start: (assignment) => residentOf(assignment).start(assignment),
  async isIdle(seat) {
    await printed()
    return residents.get(seat)?.isIdle === true && (seat !== OWN_SEAT || !hasOwnResources())
  },
  async stop(seat) {
    try {
      await residents.get(seat)?.stop()
    } finally {
      await printed()
    }
  },
  async leave(seat) {
    residents.get(seat)?.leave()
    residents.delete(seat)
    listeners.delete(seat)
  },
}

/** Checks whether code of the agent keeps this thread's event loop alive, as Node itself would decide about its end. */
function hasOwnResources(): boolean {
  const active = process.getActiveResourcesInfo?.() ?? []
  return active.some((type) => type !== 'MessagePort') // the runtime has ports of its own
}

const begin = () => expose(control, nodeEndpoint(controlPort))

if (!hasPlayed) begin()
else
  void playFirstTurn(clock)
    .catch(() => false) // then later threads compile it for themselves
    .then(() => {
      hasPlayed()
      begin() // no code of an agent runs before that
    })
