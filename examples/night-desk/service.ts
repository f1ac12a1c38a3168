/**
 * The process that is killed: it has the team, begins the night's run or goes on with it, and tells its parent of open
 * questions and of the end.
 */
import { statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { MultiAgentResult } from 'dramatis'
import { nightDesk } from './team.ts'

/** What the parent hears. */
export type Word =
  | { kind: 'begun'; goesOn: boolean }
  | { kind: 'question'; questionId: string; text: string }
  | { kind: 'done'; night: Night }

/** The night, as the log has it. */
export interface Night {
  report: string
  /** Attempts of each turn that was open when a process ended: those above 1 were resumed. */
  turns: number
  resumed: number
  tokens: number
  modelCalls: number
  refunds: number
  logBytes: number
}

/** What the parent says. */
export interface Answer {
  questionId: string
  answer: string
}

const RUN = 'the night of 1 March'
const { NIGHT_DESK_WORLD: world = '', NIGHT_DESK_MODEL: model = '', NIGHT_DESK_LOG: path = '' } = process.env

const team = nightDesk({ world, model, path })
await team.start()
const goesOn = team.getRun(RUN) !== undefined
say({ kind: 'begun', goesOn })
const run = team.launch('Settle what came back.', { runId: RUN })
process.on('message', ({ questionId, answer }: Answer) => void run.answer(questionId, answer))
for (const { questionId, text } of team.questions()) say({ kind: 'question', questionId, text })
team.events.subscribe((event) => {
  if (event.type === 'question') void tellQuestion(event.questionId, event.text)
})
const result = await run.result
const night = await nightOf(result)
await team.close()
say({ kind: 'done', night })
process.disconnect()

/** A question counts when it is in the log: then it is there again, whatever happens. */
async function tellQuestion(questionId: string, text: string): Promise<void> {
  await team.flush()
  say({ kind: 'question', questionId, text })
}

async function nightOf(result: MultiAgentResult): Promise<Night> {
  if (!result.success) throw result.error
  const { orchestrationTrace: trace, totalTokenUsage: tokens, messageHistory } = result
  const board = (await team.getBlackboard(result.runId)?.query()) ?? []
  const names = await readdir(path)
  return {
    report: result.finalOutput,
    turns: messageHistory.filter(({ type }) => type === 'request').length,
    resumed: trace.events.filter(({ eventType, details }) => {
      return eventType === 'turn.started' && Number(Object(details).attempt) > 1
    }).length,
    tokens: tokens.totalTokens,
    modelCalls: tokens.calls,
    refunds: board.filter(({ entryType }) => entryType === 'refund').length,
    logBytes: names.reduce((sum, name) => sum + statSync(join(path, name)).size, 0),
  }
}

function say(word: Word): void {
  process.send?.(word)
}
