/** What is printed in the morning: the report, and what the log and the services say of the night. */
import type { Night } from './service.ts'
import type { World } from './world.ts'

/** An end of the process, and what it was at. */
export interface Death {
  what: string
}

export function pageOf(night: Night, deaths: readonly Death[], counts: World['counts']): string {
  const { 'model call': model, refund } = counts
  const again = (came: number, done: number) =>
    came === done
      ? 'none came twice'
      : `${came - done} came twice, with the same key, and ${came - done === 1 ? 'was' : 'were'} done once`
  return [
    night.report,
    '',
    '## What happened in the night',
    '',
    `- The process was killed ${deaths.length} times: ${deaths.map(({ what }) => what).join('; ')}.`,
    `- Each next one went on with the log: ${night.turns} requests, each answered once; ${night.resumed} turns began again where they were cut off.`,
    `- Model calls that were made: ${model.done}; ${again(model.came, model.done)}. The log has ${night.modelCalls} answers, ${night.tokens} tokens: what was paid.`,
    `- Refunds that were booked: ${refund.done}, for ${night.refunds} entries in the ledger; ${again(refund.came, refund.done)}.`,
    `- The log takes ${Math.ceil(night.logBytes / 1_024)} KB.`,
  ].join('\n')
}
