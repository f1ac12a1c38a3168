/** The built-in tools, `dramatis/tools`. Each file has one tool, or the tools of one service. */

export { type ExchangeRate, exchangeRate } from './exchange-rate.ts'
export { type ReadWebpageOptions, readWebpage } from './read-webpage.ts'
export { calculator, convert, runCode } from './sandboxed.ts'
export { type CitySights, type Sight, sights } from './sights.ts'
export type { StockPrice } from './stock-price.ts'
export { stockPrice } from './stock-price.ts'
export { createTaskPlan, decomposeTask, markSubtaskComplete, type Subtask } from './subtasks.ts'
export type { DayWeather, WeatherReport } from './weather.ts'
export { weather } from './weather.ts'
export { type SearchResult, type WebSearchOptions, webSearch } from './web-search.ts'
export { readFile, runCommand, type WorkspaceOptions, workspace, writeFile } from './workspace.ts'
