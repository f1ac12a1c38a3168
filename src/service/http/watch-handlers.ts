/** Routes for what happens in a team now: its waits, its budgets, and the digest of all that it does. */
import type { Digest, Team } from '../../index.ts'
import { onAbort } from '../../on-abort.ts'
import { type Handlers, json } from './call.ts'
import { isoTime } from './iso-time.ts'
import type { ServedTeams } from './served-teams.ts'
import { type StreamForm, type Streams, streamFormOf } from './streams.ts'
import { flushed } from './tasks.ts'

export function watchHandlers(
  teams: ServedTeams,
  streams: Streams,
): Pick<Handlers, 'listWaits' | 'listTurns' | 'listBudgets' | 'watchTeam'> {
  return {
    listWaits({ query: { team } }) {
      const served = teams.named(team)
      const waits = served.team.waits().map(({ since, turnSince, until, ...wait }) => ({
        ...wait,
        since: isoTime(since),
        ...(turnSince !== undefined && { turnSince: isoTime(turnSince) }),
        ...(until !== undefined && { until: isoTime(until) }),
      }))
      return json({ waits, cycles: served.team.waitCycles() })
    },

    listTurns({ query: { team } }) {
      const served = teams.named(team)
      const turns = served.team.turns().map(({ since, doing, ...turn }) => ({
        ...turn,
        since: isoTime(since),
        doing: doing.map((each) => ({ ...each, since: isoTime(each.since) })),
      }))
      return json({ turns, judgement: served.team.judgement() })
    },

    listBudgets({ query: { team } }) {
      const all = teams.named(team).team.budgets()
      return json({ budgets: all.map(({ runId: taskId, ...use }) => ({ taskId, ...use })) })
    },

    watchTeam({ request, caller, query: { team } }) {
      const served = teams.named(team)
      const form = streamFormOf(request) ?? 'sse'
      const frames = (signal: AbortSignal) => digestFrames(loggedLines(served.team, signal), form)
      return streams.respond({ request, caller, form, frames })
    },
  }
}

/**
 * Yields the lines of a team. One that has a question waits until the durable log has it, and so do those behind it:
 * what somebody has seen is still asked after a crash.
 */
async function* loggedLines(team: Team, signal: AbortSignal): AsyncGenerator<Digest> {
  for await (const line of team.watch({ signal })) {
    if (hasQuestion(line) && !signal.aborted) await flushed(team, (over) => onAbort(signal, over))
    if (signal.aborted) return
    yield line
  }
}

const hasQuestion = ({ facts = [], snapshot }: Digest): boolean =>
  facts.some(({ type }) => type === 'question') || (snapshot !== undefined && snapshot.questions.length > 0)

/** Yields lines of a digest as they are sent. They have no ids: who comes back gets the state of the team first. */
export async function* digestFrames(lines: AsyncIterable<Digest>, form: StreamForm): AsyncGenerator<string> {
  for await (const line of lines)
    yield form === 'sse' ? `event: digest\ndata: ${textOf(line)}\n\n` : `${textOf(line)}\n`
}

/** Lines as JSON, which is made once for all who watch. */
const texts = new WeakMap<Digest, string>()

function textOf(line: Digest): string {
  const known = texts.get(line)
  if (known !== undefined) return known
  const text = JSON.stringify(line)
  texts.set(line, text)
  return text
}
