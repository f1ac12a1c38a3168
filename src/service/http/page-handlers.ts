/** The dashboard: its page, its session, and what the page has to know first. */
import { own } from '../../own.ts'
import { pageFileResponse, pageResponse } from '../dashboard/page-files.ts'
import { type Handlers, json } from './call.ts'
import type { HttpSettings } from './options.ts'
import type { ServedTeams } from './served-teams.ts'
import type { Sessions } from './sessions.ts'
import type { ServedTeam } from './task-view.ts'

interface Needs {
  readonly settings: HttpSettings
  readonly teams: ServedTeams
  readonly sessions: Sessions
}

type Own = 'page' | 'pageScript' | 'pageStyle' | 'getSession' | 'beginSession' | 'endSession'

export function pageHandlers({ settings, teams, sessions }: Needs): Pick<Handlers, Own> {
  return {
    page: ({ request }) => pageResponse(request, settings.basePath),
    pageScript: ({ request }) => pageFileResponse('page.js', request),
    pageStyle: ({ request }) => pageFileResponse('page.css', request),

    getSession({ caller: { id, may } }) {
      const shapes = teams.all.map((served) => ({
        ...shapeOf(served),
        ...(may.includes('operate') ? placesOf(served, settings.teamFiles) : { file: null, log: null }),
      }))
      return json({ caller: { id, may }, teams: shapes, hasPrices: settings.prices !== undefined })
    },

    beginSession({ request }) {
      const cookie = sessions.begin(request)
      return new Response(null, { status: 204, headers: cookie === undefined ? {} : { 'set-cookie': cookie } })
    },

    endSession: ({ request }) => new Response(null, { status: 204, headers: { 'set-cookie': sessions.end(request) } }),
  }
}

/** Returns where a team and its log are on the machine of the service, for those who work there. */
const placesOf = ({ name, team }: ServedTeam, files: HttpSettings['teamFiles']) => ({
  file: own(files, name) ?? null,
  log: team.logPath ?? null,
})

/** Returns a team's strategy, and which agents stand in its options: `{ manager: ['lead'] }`. */
function shapeOf({ name, team }: ServedTeam) {
  const agents = team.listAgents().map((agent) => agent.name)
  const { strategy, ...options } = team.orchestration
  const roles = Object.entries(options).map(([option, value]): [string, string[]] => [
    option,
    [value].flat().filter((each): each is string => typeof each === 'string' && agents.includes(each)),
  ])
  return { name, strategy, agents, roles: Object.fromEntries(roles.filter(([, named]) => named.length > 0)) }
}
