/** The dashboard: a page of its own, that a browser runs. */
import { render } from 'preact'
import { App, begin } from './app.tsx'

render(<App />, document.body)
begin()
