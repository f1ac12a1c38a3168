/** Dead letters: look, send again, take off the list. */
import type { z } from 'zod'
import type { DeadLetter } from '../../index.ts'
import { type Handlers, json } from './call.ts'
import { isoTime } from './iso-time.ts'
import { shownMessage } from './message-view.ts'
import { HttpError } from './problem.ts'
import type { deadLetter } from './schemas.ts'
import type { ServedTeams } from './served-teams.ts'
import { problemIn, type ServedTeam } from './task-view.ts'

type Own = 'listDeadLetters' | 'replayDeadLetter' | 'discardDeadLetter'

export function letterHandlers(teams: ServedTeams): Pick<Handlers, Own> {
  return {
    listDeadLetters({ query: { team, reason, order, after, limit } }) {
      const served = teams.named(team)
      const listed = served.team.deadLetters.list()
      const all = order === 'newest' ? listed.toReversed() : listed
      const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1
      if (after !== undefined && from === 0)
        throw new HttpError('CONFIGURATION', `after: there is no dead letter "${after.slice(0, 255)}" any more.`)
      const wanted = all.slice(from).filter((letter) => reason === undefined || letter.reason === reason)
      const page = wanted.slice(0, limit)
      const next = wanted.length > limit ? page.at(-1)!.id : null
      return json({ letters: page.map((letter) => shownLetter(served, letter)), next })
    },

    async replayDeadLetter({ params, query: { team } }) {
      const served = teams.named(team)
      assertIsThere(served, params.id!)
      const { runId } = await served.team.deadLetters.replay(params.id!)
      return json({ taskId: served.team.getRun(runId) ? runId : null }, 202)
    },

    async discardDeadLetter({ params, query: { team } }) {
      const served = teams.named(team)
      assertIsThere(served, params.id!)
      served.team.deadLetters.discard(params.id!)
      await served.team.flush() // it is not there again after a restart
      return new Response(null, { status: 204 })
    },
  }
}

/** @throws HttpError if there is no such letter. */
function assertIsThere({ team }: ServedTeam, letterId: string): void {
  if (team.deadLetters.list().some(({ id }) => id === letterId)) return
  throw new HttpError('NOT_FOUND', `There is no dead letter "${letterId.slice(0, 255)}".`)
}

function shownLetter({ name: team }: ServedTeam, letter: DeadLetter): z.infer<typeof deadLetter> {
  const { id, reason, at, message, errors } = letter
  const instance = `/api/dead-letters/${encodeURIComponent(id)}`
  return {
    id,
    team,
    reason,
    at: isoTime(at),
    message: shownMessage(message),
    errors: errors.map((error) => problemIn(error, instance)),
  }
}
