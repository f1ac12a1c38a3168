/** The programs of docs/tutorials run and print what their pages say. */
import t from 'tap'
import { pagesBelow } from './page.ts'
import { runPage } from './run-page.ts'

for (const path of pagesBelow('docs/tutorials')) runPage(t, path)
