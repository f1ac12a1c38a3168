/** The built-in tools, `dramatis/tools`. Each file has one tool, or the tools of one service. */

export { calculator } from './calculator.ts'
export { convert } from './convert.ts'
export { type ExchangeRate, exchangeRate } from './exchange-rate.ts'
export { type ReadWebpageOptions, readWebpage } from './read-webpage.ts'
export { runCode } from './run-code.ts'
export { stockPrice } from './stock-price.ts'
export type { StockPrice } from './stock-services.ts'
export { createTaskPlan, decomposeTask, markSubtaskComplete, type Subtask } from './subtasks.ts'
export { weather } from './weather.ts'
export type { DayWeather, WeatherReport } from './weather-report.ts'
export { type SearchResult, type WebSearchOptions, webSearch } from './web-search.ts'
export { readFile, runCommand, type WorkspaceOptions, workspace, writeFile } from './workspace.ts'
