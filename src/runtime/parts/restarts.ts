/** Restarts what died, as the policy says; stops what dies too often and tries it again after its cool-down. */
import { AgentTerminatedError } from '../../errors.ts'
import type { Cell } from '../cell.ts'
import type { Part } from '../core.ts'
import type { HostRecord } from '../records.ts'
import { nextRestart } from '../restart-policy.ts'

export const restarts: Part = (core) => {
  const { clock, lives } = core

  const exited = ({ index, epoch, error, fault }: Extract<HostRecord, { kind: 'agent.exited' }>) => {
    const cell = core.cells[index]!
    if (cell.stopped) return
    const { supervision } = cell.settings
    const next = nextRestart(supervision, cell.restartTimes, clock.monotonic(), epoch, () => clock.random())
    if (fault) cell.restartTimes = [...next.history]
    const restart = next.restart || !fault // what poison did leaves the window
    const [head] = cell.mailbox.queued()
    core.record(undefined, {
      kind: 'agent.crashed',
      agent: cell.name,
      epoch,
      error,
      restartInMs: restart ? next.delayMs : null,
      messageId: head && head.attempt > 1 ? core.idOf(head) : null,
    })
    if (restart) begin(cell, next.delayMs)
    else coolDown(cell, error.message)
  }

  const begin = (cell: Cell, delayMs: number) => {
    cell.restarts += 1
    lives.become(cell, 'restarting')
    if (delayMs === 0) void lives.begin(cell)
    else clock.timer(delayMs, () => void (cell.life || cell.stopped || core.closed || lives.begin(cell)))
  }

  const coolDown = (cell: Cell, last: string) => {
    const { maxRestarts, withinMs, coolDownMs } = cell.settings.supervision
    const times = cell.restartTimes.length
    lives.stopForGood(
      cell,
      new AgentTerminatedError(
        `It died ${times} times within ${withinMs} ms (allowed: ${maxRestarts}) and is tried again after ${coolDownMs} ms. The last time: ${last}`,
        { agent: cell.name, deaths: times, withinMs, coolDownMs },
      ),
    )
    clock.timer(coolDownMs, () => lives.revive(cell))
  }

  return {
    next(batch) {
      for (const record of batch) if (record.kind === 'agent.exited') exited(record)
    },
  }
}
