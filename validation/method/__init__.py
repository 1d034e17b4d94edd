"""How an error is told: confidence intervals whose coverage is tested, and one error table for all
predictors."""
