/** The dashboard: a page of its own, that a browser runs. */
import { effect, untracked } from '@preact/signals'
import { type JSX, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { grouped } from '../../shared/text.ts'
import { missingWords } from '../digest/digest-fold.ts'
import { isToldLater } from '../pictures/deadlocks.ts'
import { isTrouble } from '../pictures/run-story.ts'
import { BoardView } from './board-view.tsx'
import { goToButton, moveRow, useKeys } from './canvas.ts'
import { ChatView } from './chat-view.tsx'
import { CostView } from './cost-view.tsx'
import { begun, connection, live, messageRate, notice, now, refusal, version, watch } from './live.ts'
import { Button, Failure } from './parts.tsx'
import {
  enter,
  goTo,
  linkTo,
  lookUp,
  mayApprove,
  mayRun,
  mayWatch,
  place,
  session,
  team,
  tokenInUrl,
  VIEWS,
  type View,
} from './place.ts'
import { RunView } from './run-view.tsx'
import { isUnknown, messageOf, Refused } from './service.ts'
import { keepTasks, questions } from './tasks.ts'
import { TasksView } from './tasks-view.tsx'
import { TeamView } from './team-view.tsx'
import { TroubleView } from './trouble-view.tsx'
import { shown, Words } from './words.tsx'

const shownViews: Record<View, { title: string; View(): JSX.Element | null }> = {
  tasks: { title: 'Tasks', View: TasksView },
  team: { title: 'Team', View: TeamView },
  run: { title: 'Run', View: RunView },
  cost: { title: 'Cost', View: CostView },
  trouble: { title: 'Trouble', View: TroubleView },
  board: { title: 'Board', View: BoardView },
  chat: { title: 'Chat', View: ChatView },
}

export function begin(): void {
  keepTasks()
  effect(() => {
    const watched = team.value
    if (watched === '') return
    if (mayWatch.value) untracked(() => watch(watched))
    else connection.value = 'refused'
  })
  effect(() => {
    if (begun.value > 1) void lookUp().catch(() => {}) // another process may serve other teams
  })
  void introduce(tokenInUrl())
}

/** Says who we are, or asks. A service that does not answer is asked again. */
async function introduce(token: string | undefined): Promise<void> {
  try {
    if (token === undefined) await lookUp()
    else await enter(token)
  } catch {
    if (isUnknown.value) return
    connection.value = 'lost'
    setTimeout(() => void introduce(token), RETRY_MS)
  }
}

const RETRY_MS = 1_000

export function App(): JSX.Element {
  const [hasHelp, setHelp] = useState(false)
  useKeys({
    ...Object.fromEntries(VIEWS.map((view, at) => [String(at + 1), () => goTo({ view })])),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    '/': () => document.getElementById('filter')?.focus(),
    a: () => goToButton('allow'),
    d: () => goToButton('deny'),
    '?': () => setHelp(!hasHelp),
    Escape: () => setHelp(false),
  })
  const { view } = place.value
  const { title, View } = shownViews[view]
  useEffect(() => {
    document.title = `${title} · ${team.value || 'dramatis'}`
  }, [title, team.value])
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault()
          document.querySelector('main')?.focus()
        }}
      >
        Skip to the view
      </a>
      <Header view={view} />
      <Banner />
      {hasHelp && <Help close={() => setHelp(false)} />}
      <main id="main" tabIndex={-1} class={`view-${view}`}>
        <h1 class="unseen">{title}</h1>
        {isUnknown.value ? <TokenForm /> : session.value ? <View /> : <p class="empty">Connecting …</p>}
      </main>
    </>
  )
}

function Header({ view }: { view: View }): JSX.Element {
  const teams = session.value?.teams ?? []
  return (
    <header class="top">
      {teams.length > 1 ? (
        <select
          aria-label="Team"
          value={team.value}
          onChange={(event) =>
            goTo({ view, team: event.currentTarget.value, task: undefined, agent: undefined, thread: undefined })
          }
        >
          {teams.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      ) : (
        <strong class="team">{shown(team.value || 'dramatis')}</strong>
      )}
      <nav aria-label="Views">
        {VIEWS.map((each, at) => (
          <a key={each} href={linkTo({ view: each })} aria-current={each === view ? 'page' : undefined}>
            <kbd aria-hidden="true">{at + 1}</kbd> {shownViews[each].title}
            {each === 'trouble' && <Alarms />}
          </a>
        ))}
      </nav>
      <Pulse />
    </header>
  )
}

/** Number of troubles that were seen since the page was opened, and of dead letters. */
function Alarms(): JSX.Element | null {
  version.value
  const { facts, deadLetters } = live()
  const others = facts.filter(
    (fact) => isTrouble(fact) && fact.type !== 'message.dead' && !isToldLater(fact, facts),
  ).length
  const count = deadLetters + others
  return count === 0 ? null : <span class="alarms">{grouped(count)}</span>
}

function Pulse(): JSX.Element {
  version.value
  now.value
  const open = questions.value.length
  return (
    <div class="pulse">
      {open > 0 && (
        <a class="badge" href={linkTo({ view: 'tasks' })}>
          {open} {open === 1 ? 'question' : 'questions'}
        </a>
      )}
      {connection.value === 'live' && <span class="dim">{grouped(messageRate())} msg/s</span>}
      <span class={`connection ${connection.value}`} role="status">
        <span aria-hidden="true">{connection.value === 'live' ? '●' : '○'}</span>{' '}
        {isUnknown.value ? 'needs a token' : STATES[connection.value]}
      </span>
    </div>
  )
}

const STATES = { live: 'live', connecting: 'connecting', lost: 'not connected', refused: 'not watching' }

function Banner(): JSX.Element | null {
  version.value
  if (isUnknown.value) return null
  if (connection.value === 'lost')
    return (
      <div class="banner bad" role="alert">
        {refusal.value === '' ? 'The service does not answer.' : <Words text={refusal.value} />} The page tries again;
        what it shows is how things were
        {live().lines > 0 && ` at ${new Date(live().now).toLocaleTimeString()}`}.
      </div>
    )
  if (session.value && !mayWatch.value) {
    const may = [...(mayRun.value ? ['give the team tasks'] : []), ...(mayApprove.value ? ['approve calls'] : [])]
    const what = may.length === 0 ? '' : `You may ${may.join(' and ')}. `
    return <div class="banner">{what}To see what the team does you need the right to watch.</div>
  }
  const missing = missingWords(live().processes)
  if (missing !== '')
    return (
      <div class="banner bad" role="status">
        A part of the team is <Words text={missing} />.
      </div>
    )
  if (notice.value === '') return null
  return (
    <div class="banner" role="status">
      {notice.value}{' '}
      <Button
        text="Close"
        onClick={() => {
          notice.value = ''
        }}
      />
    </div>
  )
}

function TokenForm(): JSX.Element {
  const [failure, setFailure] = useState('')
  return (
    <form
      class="token"
      onSubmit={(event) => {
        event.preventDefault()
        const token = String(new FormData(event.currentTarget).get('token'))
        enter(token).catch((error: unknown) => setFailure(refusalWords(error)))
      }}
    >
      <h2>Who are you?</h2>
      <p>The service asks for a token. It is kept in a cookie that no script can read.</p>
      <label>
        Token
        <input type="password" name="token" autocomplete="current-password" required />
      </label>
      <Button text="Enter" type="submit" class="good" />
      <Failure text={failure} />
    </form>
  )
}

function refusalWords(error: unknown): string {
  if (error instanceof Refused && error.status === 401) return 'The service does not know that token.'
  return messageOf(error)
}

const KEYS: readonly (readonly [string, string])[] = [
  ['1 to 7', 'views'],
  ['j k', 'next and previous row; Enter opens it'],
  ['/', 'find'],
  ['a d', 'to Allow or Deny of the first approval; Enter presses it'],
  ['t', 'the picture as a table, and back'],
  ['[ ]', 'a message back or on, in a run'],
  ['n N', 'next and previous trouble in a run, or what was found'],
  ['Space', 'play a run'],
  ['?', 'this list'],
]

function Help({ close }: { close(): void }): JSX.Element {
  return (
    <section class="help" aria-label="Keys">
      <dl>
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <Button text="Close" onClick={close} />
    </section>
  )
}

render(<App />, document.body)
begin()
